"""Answers the signed routes that store and find memories."""

import base64
import binascii
import re
from datetime import datetime
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from . import bodies
from .answers import bare_hit, hit, job_state, reply, stamp
from .errors import MissingError, NoCertificateError, RefusedError
from .gate import Admitted
from .ports import Caller, Fact, Item, Query
from .relayer import Relayer

MAX_FACTS: Final = 20
_MAX_RELATED: Final = 10
"""Number of related memories in the request to the extractor, so that it does not repeat them."""
_MAX_DISTANCE: Final = 0.35
"""Distance up to which a stored memory is compared with a new fact word by word."""
_WORD: Final = re.compile(r"\w+")


async def remember(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/remember`."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.RememberBody)
    (job,) = await relayer.memory.remember(caller, [_item(body, caller)])
    return reply({"job_id": job.id, "id": job.id, "status": job.status}, 202)


async def remember_bulk(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/remember/bulk`."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.BulkBody)
    bodies.listed(body.items, "items")
    common = bodies.key(body.idempotency_key)
    items = [_item(item, caller) for item in body.items]
    if common is not None:
        items = [_keyed(item, common, number) for number, item in enumerate(items)]
    jobs = await relayer.memory.remember(caller, items)
    ids = [job.id for job in jobs]
    return reply({"job_ids": ids, "total": len(ids), "status": "running"}, 202)


def _item(body: bodies.RememberBody, caller: Caller) -> Item:
    return Item(
        text=bodies.text(body.text, "Text"),
        namespace=bodies.namespace(body.namespace, caller),
        idempotency_key=bodies.key(body.idempotency_key),
    )


def _keyed(item: Item, common: str, number: int) -> Item:
    """Returns the item with its own key, or with a key derived from the key of the request."""
    return Item(item.text, item.namespace, item.idempotency_key or f"{common}\0{number}")


async def job(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `GET /api/remember/{job_id}`."""
    job_id = request.path_params["job_id"]
    (state,) = await relayer.memory.jobs(admitted.caller, [job_id])
    if state is None:
        raise MissingError(f"Job {job_id[:80]} not found")
    return reply({**job_state(state), "owner": state.owner, "namespace": state.namespace})


async def jobs(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/remember/bulk/status`."""
    body = bodies.parse(request, admitted.body, bodies.JobsBody)
    bodies.listed(body.job_ids, "job_ids")
    states = await relayer.memory.jobs(admitted.caller, body.job_ids)
    results = [
        job_state(state) if state else {"job_id": job_id, "status": "not_found"}
        for job_id, state in zip(body.job_ids, states, strict=True)
    ]
    return reply({"results": results})


async def remember_manual(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/remember/manual`."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.ManualBody)
    vector = bodies.vector(body.vector)
    namespace = bodies.namespace(body.namespace, caller)
    try:
        data = base64.b64decode(body.encrypted_data, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError("encrypted_data must be standard base64") from None
    if not data:
        raise RefusedError("encrypted_data cannot be empty")
    stored = await relayer.memory.remember_manual(caller, data, vector, namespace)
    fields = {"id": stored.id, "blob_id": stored.blob_id}
    return reply({**fields, "owner": caller.owner, "namespace": namespace})


async def recall(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/recall`."""
    body = bodies.parse(request, admitted.body, bodies.RecallBody)
    query = bodies.question(body, admitted.caller)
    _need_certificate(admitted.caller)
    recalled = await relayer.memory.recall(admitted.caller, query)
    results = [hit(row) for row in recalled.hits]
    answer: dict[str, object] = {"results": results, "total": len(results)}
    if recalled.dropped:
        answer["dropped_count"] = recalled.dropped
    return reply(answer)


async def recall_manual(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/recall/manual`."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.VectorBody)
    query = Query(
        namespace=bodies.namespace(body.namespace, caller),
        limit=bodies.limit(body.limit),
        vector=bodies.vector(body.vector),
        weights=bodies.weights(body.scoring_weights),
    )
    recalled = await relayer.memory.recall_manual(caller, query)
    return reply({"results": [bare_hit(row) for row in recalled.hits], "total": len(recalled.hits)})


async def embed(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/embed`."""
    body = bodies.parse(request, admitted.body, bodies.TextBody)
    text = bodies.text(body.text, "text", bodies.MAX_ANALYZED)
    return reply({"vector": list(await relayer.memory.embed(text))})


async def analyze(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/analyze`: extracts facts now and stores them in jobs."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.AnalyzeBody)
    text = bodies.text(body.text, "Text", bodies.MAX_ANALYZED)
    namespace = bodies.namespace(body.namespace, caller)
    facts = await new_facts(relayer, caller, text, namespace, _parsed_time(body.occurred_at))
    common = bodies.key(body.idempotency_key)
    items = [
        Item(fact.text, namespace, _fact_key(common, fact.text), importance=fact.importance)
        for fact in facts
    ]
    jobs = await relayer.memory.remember(caller, items) if items else []
    relayer.limits.add(caller.public_key, caller.owner, len(facts), relayer.clock())
    pairs = list(zip(facts, jobs, strict=True))
    return reply(
        {
            "job_ids": [state.id for state in jobs],
            "facts": [{"text": f.text, "id": state.id, "job_id": state.id} for f, state in pairs],
            "fact_count": len(facts),
            "status": "pending",
            "owner": caller.owner,
        },
        202,
    )


def _fact_key(common: str | None, fact: str) -> str | None:
    """Returns the key of one fact, derived from the key of the request."""
    return f"{common}\0{sha256(fact.encode()).hexdigest()}" if common is not None else None


async def new_facts(
    relayer: Relayer, caller: Caller, text: str, namespace: str, occurred_at: datetime | None
) -> list[Fact]:
    """Returns at most `MAX_FACTS` facts of `text` that are new in the namespace."""
    memories: list[str] = []
    if caller.certificate is not None:
        near = await relayer.memory.recall(caller, Query(namespace, _MAX_RELATED, text))
        memories = [memory.text for memory in near.hits]
    facts = (await relayer.extractor.extract(text, occurred_at, memories))[:MAX_FACTS]
    fresh: dict[str, Fact] = {}
    for fact in facts:
        words = _words(fact.text)
        if words not in fresh and not await _is_stored(relayer, caller, fact.text, namespace):
            fresh[words] = fact
    return list(fresh.values())


async def _is_stored(relayer: Relayer, caller: Caller, text: str, namespace: str) -> bool:
    """Returns whether a memory of the namespace has the same words; False without certificate."""
    if caller.certificate is None:
        return False
    recalled = await relayer.memory.recall(caller, Query(namespace, 3, text))
    words = _words(text)
    return any(hit.distance <= _MAX_DISTANCE and _words(hit.text) == words for hit in recalled.hits)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _parsed_time(text: str | None) -> datetime | None:
    """Returns the time of `occurred_at`. Raises `RefusedError` if it is not RFC 3339."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise RefusedError("occurred_at must be an RFC 3339 time with an offset")
    return moment


async def ask(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/ask` from memories."""
    body = bodies.parse(request, admitted.body, bodies.AskBody)
    query = bodies.question(body, admitted.caller)
    _need_certificate(admitted.caller)
    recalled = await relayer.memory.recall(admitted.caller, query)
    answer = await relayer.extractor.answer(query.text, [row.text for row in recalled.hits])
    memories = [hit(row) for row in recalled.hits]
    return reply({"answer": answer, "memories_used": len(memories), "memories": memories})


async def restore(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/restore`."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.RestoreBody)
    namespace, limit = bodies.namespace(body.namespace, caller), bodies.limit(body.limit)
    _need_certificate(caller)
    restored = await relayer.memory.restore(caller, namespace, limit)
    counts = {"restored": restored.restored, "skipped": restored.skipped, "total": restored.total}
    failures = {"failed": restored.failed, "truncated": restored.truncated}
    return reply({**counts, **failures, "namespace": namespace, "owner": caller.owner})


async def forget(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/forget`: deletes a namespace."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.NamespaceBody)
    namespace = bodies.namespace(body.namespace, caller)
    deleted = await relayer.memory.forget_namespace(caller, namespace)
    return reply({"deleted": deleted, "namespace": namespace, "owner": caller.owner})


async def forget_memories(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/memories/forget`: deletes memories by id."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.IdsBody)
    deleted = await relayer.memory.forget(caller, _ids(body))
    return reply({"deleted": deleted, "owner": caller.owner})


async def read_memories(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/memories/read`: returns memories by id; skips ids of other owners."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.IdsBody)
    _need_certificate(caller)
    memories = await relayer.memory.read(caller, _ids(body))
    rows = [
        {
            "id": row.id,
            "blob_id": row.blob_id,
            "text": row.text,
            "created_at": stamp(row.created_at),
            "importance": row.importance,
        }
        for row in memories
    ]
    return reply({"memories": rows, "total": len(rows)})


def _ids(body: bodies.IdsBody) -> list[str]:
    if not 1 <= len(body.ids) <= bodies.MAX_HITS:
        raise RefusedError(f"ids must have 1 to {bodies.MAX_HITS} entries, not {len(body.ids)}")
    return body.ids


async def stats(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `POST /api/stats`."""
    caller = admitted.caller
    body = bodies.parse(request, admitted.body, bodies.NamespaceBody)
    namespace = bodies.namespace(body.namespace, caller)
    size = await relayer.memory.stats(caller, namespace)
    counts = {"memory_count": size.memory_count, "storage_bytes": size.storage_bytes}
    return reply({**counts, "namespace": namespace, "owner": caller.owner})


def _need_certificate(caller: Caller) -> None:
    if caller.certificate is None:
        raise NoCertificateError
