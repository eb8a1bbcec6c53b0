"""The method that searches conversations, for the owner at the gateway."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.model.recall import Excerpt, TranscriptHit
from skerry.store.transcript_search import MAX_HITS, TranscriptQuery, search


class SessionsSearchParams(Params):
    """Parameters of `sessions.search`; without `key` all conversations of the agent are searched.

    `sessionKeys` limits the search to these conversations. Deleted messages are not searched.
    """

    ignored: ClassVar = {"scope": "`sessionKeys` selects the conversations."}

    query: Annotated[str, Field(min_length=1, max_length=4096)]
    key: Name | None = None
    session_keys: Annotated[list[Name], Field(min_length=1, max_length=200)] | None = None
    agent_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_HITS)] = 8


async def sessions_search(call: Call, params: SessionsSearchParams) -> Json:
    """Returns the exchanges that match the words, best first."""
    key = call.session_key(params.key, params.agent_id)
    everywhere = params.key is None
    only: frozenset[str] | None = None
    if params.session_keys is not None:
        keys = (call.session_key(key_text, params.agent_id) for key_text in params.session_keys)
        only = frozenset(map(str, keys))
    question = TranscriptQuery(key, params.query, params.limit, everywhere=everywhere, only=only)
    answer = await search(call.context.store, question)
    return {"complete": answer.complete, "hits": [_hit(hit) for hit in answer.hits]}


def _hit(hit: TranscriptHit) -> Json:
    return {
        "key": hit.key,
        "sessionId": hit.session_id,
        "archived": hit.archived,
        **_excerpt(hit.excerpt),
        "before": _excerpt(hit.before) if hit.before else None,
        "after": _excerpt(hit.after) if hit.after else None,
    }


def _excerpt(exchange: Excerpt) -> dict[str, Json]:
    return {
        "id": exchange.entry,
        "seq": exchange.seq,
        "at": exchange.at,
        "role": exchange.role,
        "text": exchange.text,
    }


METHODS: Final = (Method("sessions.search", SessionsSearchParams, sessions_search),)
