"""A MemWal server for tests: checks signatures, stores texts as they are, and logs every request.

Facts of `analyze` are the paragraphs of its text. Recall compares words. It is a process of its own
or served in the test's; its log is what deliveries are counted from.
"""

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import mul
from pathlib import Path
from typing import Any, Final

import anyio
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.gateway import serving

SEED: Final = bytes(range(1, 33)).hex()
ACCOUNT: Final = f"0x{'12' * 32}"
_OPEN: Final = {
    "/health": {"status": "ok", "version": "1.0.0", "write_ready": True},
    "/config": {"packageId": f"0x{'cd' * 32}", "network": "localnet"},
}
"""Answers to requests that need no signature."""
_WORD: Final = re.compile(r"[a-z]{4,}")


class Memory(Struct):
    """One stored fact."""

    blob_id: str
    owner: str
    namespace: str
    text: str
    """Base64 of the ciphertext where the client encrypted it."""
    vector: list[float] | None = None
    """The client's; None where the server sees the text."""


class FakeRelayer(Struct):
    """State of the server; a file of `log` has a line for each request."""

    log: Path | None = None
    memories: list[Memory] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    knows: bool = True
    """Stores no fact again that it has."""
    keeps: bool = True
    """Stores facts and keeps requests."""
    is_down: bool = False
    """Answers every request with 503."""
    revoked: set[str] = field(default_factory=set)
    """Accounts whose requests are refused."""
    hangs: bool = False
    """Answers no request."""

    def of(self, path: str) -> list[dict[str, Any]]:
        """Returns the bodies of the requests for a path."""
        return [body for asked, body in self.requests if asked == path]

    def add(self, text: str, namespace: str = "default") -> Memory:
        """Stores a fact."""
        return self._store(ACCOUNT, namespace, text)

    def app(self) -> Starlette:
        """Returns the server."""
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])

    async def _answer(self, request: Request) -> Response:
        path, data = request.url.path, await request.body()
        body: dict[str, Any] = json.loads(data) if data else {}
        self._note(path, body)
        if self.hangs:
            await anyio.sleep_forever()
        if self.is_down:
            return JSONResponse({"error": "down"}, 503)
        if path in _OPEN:
            return JSONResponse(_OPEN[path])
        if path.startswith("/v1/blobs/"):
            return self._blob(path.rpartition("/")[2])
        if not _is_signed(request, data) or request.headers["x-account-id"] in self.revoked:
            return Response(status_code=401)
        return self._signed(path, body, request.headers["x-account-id"])

    def _note(self, path: str, body: dict[str, Any]) -> None:
        if self.keeps:
            self.requests.append((path, body))
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps([path, body]) + "\n")

    def _signed(self, path: str, body: dict[str, Any], owner: str) -> Response:
        namespace = body.get("namespace", "default")
        match path:
            case "/api/recall":
                found = self._nearest(body["query"], owner, namespace)[: body["limit"]]
                return JSONResponse({"results": found, "total": len(found)})
            case "/api/analyze":
                facts = self._once(body, owner, namespace) if self.keeps else []
                return JSONResponse({"facts": facts, "fact_count": len(facts)}, 202)
            case "/api/remember":
                stored = self._store(owner, namespace, body["text"])
                return JSONResponse({"job_id": stored.blob_id, "status": "running"}, 202)
            case "/api/memories/forget":
                before = len(self.memories)
                ids = set(body["ids"])
                self.memories = [memory for memory in self.memories if memory.blob_id not in ids]
                return JSONResponse({"deleted": before - len(self.memories)})
            case "/api/stats":
                mine = [memory for memory in self.memories if memory.namespace == namespace]
                return JSONResponse(
                    {
                        "memory_count": len(mine),
                        "storage_bytes": sum(len(memory.text) for memory in mine),
                        "namespace": namespace,
                        "owner": owner,
                    }
                )
            case _:
                return self._manual(path, body, owner, namespace)

    def _manual(self, path: str, body: dict[str, Any], owner: str, namespace: str) -> Response:
        """Answers what a client asks that encrypts by itself."""
        match path.split("/")[1:]:
            case ["api", "remember", "manual"]:
                stored = self._store(owner, namespace, body["encrypted_data"])
                stored.vector = body["vector"]
                return JSONResponse({"id": stored.blob_id, "blob_id": stored.blob_id})
            case ["api", "recall", "manual"]:
                near = [
                    {
                        "blob_id": memory.blob_id,
                        "distance": 1 - sum(map(mul, memory.vector, body["vector"])),
                    }
                    for memory in self.memories
                    if memory.vector is not None
                    and (memory.owner, memory.namespace) == (owner, namespace)
                ]
                near.sort(key=lambda row: row["distance"])
                return JSONResponse({"results": near[: body["limit"]]})
            case ["v1", "owners", who, "memories"]:
                rows = [
                    {"namespace_id": memory.namespace, "blob_id": memory.blob_id}
                    for memory in self.memories
                    if memory.owner == who
                ]
                return JSONResponse({"memories": rows, "next_cursor": None})
            case _:
                return JSONResponse({"error": f"no route {path}"}, 404)

    def _blob(self, blob_id: str) -> Response:
        for memory in self.memories:
            if memory.blob_id == blob_id:
                data = base64.b64decode(memory.text) if memory.vector else memory.text.encode()
                return Response(data)
        return JSONResponse({"error": "blob not found"}, 404)

    def _once(self, body: dict[str, Any], owner: str, namespace: str) -> list[dict[str, str]]:
        """Returns the facts of a text, which are stored once for one key."""
        key = body.get("idempotency_key", "")
        if not key or key not in self.keys:
            self.keys[key] = self._facts(body["text"], owner, namespace)
        return self.keys[key]

    def _facts(self, text: str, owner: str, namespace: str) -> list[dict[str, str]]:
        facts = []
        for paragraph in text.split("\n\n"):
            fact = re.sub(r"^\d+\. ", "", paragraph)
            known = [memory for memory in self.memories if self.knows and memory.text == fact]
            stored = known[0] if known else self._store(owner, namespace, fact)
            facts.append({"text": fact, "id": stored.blob_id, "job_id": stored.blob_id})
        return facts

    def _store(self, owner: str, namespace: str, text: str) -> Memory:
        digest = hashlib.sha256(f"{len(self.memories)} {text}".encode()).hexdigest()
        memory = Memory(digest, owner, namespace, text)
        self.memories.append(memory)
        return memory

    def _nearest(self, query: str, owner: str, namespace: str) -> list[dict[str, Any]]:
        words = set(_WORD.findall(query.lower()))
        found = []
        for memory in self.memories:
            if (memory.owner, memory.namespace) == (owner, namespace):
                shared = words & set(_WORD.findall(memory.text.lower()))
                distance = 1 - len(shared) / max(len(words), 1)
                row = {"blob_id": memory.blob_id, "text": memory.text, "distance": distance}
                found.append(row)
        return sorted(found, key=lambda row: row["distance"])


def _is_signed(request: Request, data: bytes) -> bool:
    headers = request.headers
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    message = ".".join(
        (
            headers["x-timestamp"],
            request.method,
            target,
            hashlib.sha256(data).hexdigest(),
            headers["x-nonce"],
            headers["x-account-id"],
        )
    )
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(headers["x-public-key"]))
    try:
        key.verify(bytes.fromhex(headers["x-signature"]), message.encode())
    except InvalidSignature:
        return False
    return True


@asynccontextmanager
async def fake_relayer(
    relayer: FakeRelayer | None = None,
) -> AsyncIterator[tuple[FakeRelayer, str]]:
    """Serves a relayer in the test's process; gives its state and its address."""
    relayer = relayer or FakeRelayer()
    async with serving(relayer.app()) as port:
        yield relayer, f"http://127.0.0.1:{port}"


def configured(url: str, **options: Any) -> dict[str, Any]:
    """Returns the section `plugins` of a gateway whose memory is the relayer's."""
    config = {"privateKey": SEED, "accountId": ACCOUNT, "serverUrl": url, **options}
    return {
        "slots": {"memory": "memory-memwal"},
        "entries": {"memory-memwal": {"config": config}},
    }


async def main() -> None:
    """Serves two memories until it is ended, and prints its address."""
    relayer = FakeRelayer(keeps=False)
    relayer.add("User likes the harbour in the morning")
    relayer.add("User works on the boats of the harbour")
    async with fake_relayer(relayer) as (_, url):
        print(url, flush=True)  # noqa: T201 - it is what the caller reads
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main)
