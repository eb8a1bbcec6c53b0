"""Methods that read conversations: `chat.history`, `sessions.list`."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Raw
from pydantic import Field

from skerry.gateway.attachments import has_images, without_images
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.gateway.methods.keys import session_key
from skerry.model import message
from skerry.model.ids import SessionKey
from skerry.model.message import UserMessage
from skerry.model.session import SessionEntry, TranscriptEntry, entry_id
from skerry.store import DATABASE, Reader, sessions

_HISTORY_BYTES: Final = 6 * 1024 * 1024
_TRIES: Final = 5


class ChatHistoryParams(Params):
    """Parameters of `chat.history`. `offset` leaves out that many of the newest messages."""

    session_key: Name
    agent_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0


class SessionsListParams(Params):
    """Parameters of `sessions.list`. Those behind `search` are what clients send without need."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    agent_id: Name | None = None
    include_derived_titles: bool = False
    include_last_message: bool = False
    search: Annotated[str, Field(max_length=512)] = ""
    sort_by: Literal["updatedAt"] | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None
    configured_agents_only: bool | None = None


async def chat_history(call: Call, params: ChatHistoryParams) -> Json:
    """Return a conversation, newest last, and the runs that are not in it yet.

    Together they miss nothing: when a run began or ended while the transcript was read, it is read
    again.
    """
    key = session_key(call, params.session_key, params.agent_id)
    active = call.context.dispatcher.active
    payload: dict[str, Json] = {}
    running = active(key)
    for _ in range(_TRIES):
        payload = await call.context.store.read(lambda reader: _history(reader, key, params))
        before, running = running, active(key)
        if running == before:
            break
    text = call.context.broadcast.text
    payload["activeRuns"] = [{"runId": run_id, "text": text(run_id)} for run_id in running]
    return payload


def _history(reader: Reader, key: SessionKey, params: ChatHistoryParams) -> dict[str, Json]:
    session = sessions.find(reader, str(key))
    if session is None:
        nothing = {"messages": [], "totalMessages": 0, "hasMore": False}
        return {"sessionKey": str(key), "sessionId": None, **nothing}
    newest = session.tail - params.offset
    found = sessions.entries(reader, session.session_id, limit=params.limit, before=newest + 1)
    shown: list[Raw] = []
    size = 0
    for entry in reversed(found):
        line = _line(entry)
        if size + len(line) > _HISTORY_BYTES and has_images(entry.message):
            line = without_images(line)
        size += len(line)
        if shown and size > _HISTORY_BYTES:
            break
        shown.append(Raw(line))
    payload: dict[str, Json] = {
        "sessionKey": str(key),
        "sessionId": session.session_id,
        "messages": shown[::-1],
        "totalMessages": session.tail,
        "hasMore": len(shown) < newest,
    }
    if payload["hasMore"]:
        payload["nextOffset"] = params.offset + len(shown)
    return payload


def _line(entry: TranscriptEntry) -> bytes:
    """Return the message with what the wire adds to it, encoded."""
    about: dict[str, Json] = {
        "id": entry_id(entry.seq),
        "seq": entry.seq,
        "recordTimestampMs": entry.at,
    }
    added: dict[str, Json] = {"__openclaw": about}
    if entry.run_id:
        about["runId"] = entry.run_id
        if isinstance(entry.message, UserMessage):
            added["idempotencyKey"] = f"{entry.run_id}:user"
    return message.encode(entry.message)[:-1] + b"," + msgspec.json.encode(added)[1:]


async def sessions_list(call: Call, params: SessionsListParams) -> Json:
    """Return conversations, the latest used first."""
    context = call.context
    status = await context.models.status()
    model = status.model
    search = params.search.strip()

    def read(reader: Reader) -> tuple[int, list[Json]]:
        found = sessions.recent(
            reader,
            limit=params.limit,
            offset=params.offset,
            agent=params.agent_id,
            search=search,
        )
        total = sessions.count(reader, agent=params.agent_id, search=search)
        return total, [_row(reader, session, params) for session in found]

    total, rows = await context.store.read(read)
    end = params.offset + len(rows)
    more = end < total
    return {
        "ts": context.clock.now_ms(),
        "path": str(context.config().state_dir / DATABASE),
        "count": len(rows),
        "totalCount": total,
        "limitApplied": params.limit,
        "nextOffset": end if more else None,
        "hasMore": more,
        "owners": [],
        "defaults": {
            "modelProvider": model.provider if model else None,
            "model": model.id if model else None,
            "contextTokens": model.context_window if model else None,
        },
        "sessions": rows,
    }


def _row(reader: Reader, session: SessionEntry, params: SessionsListParams) -> Json:
    key = SessionKey.parse(session.key)
    row: dict[str, Any] = {
        "key": session.key,
        "kind": "group" if session.chat_type == "group" else "direct",
        "chatType": session.chat_type,
        "agentId": session.agent_id,
        "isMain": key.scope == ("main",),
        "displayName": ":".join(key.scope),
        "sessionId": session.session_id,
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
        "systemSent": session.tail > 0,
        "abortedLastRun": session.aborted_last_run,
        "inputTokens": session.input_tokens,
        "outputTokens": session.output_tokens,
        "totalTokens": session.total_tokens,
        "totalTokensFresh": session.total_tokens > 0,
        "modelProvider": session.provider,
        "model": session.model,
    }
    if params.include_derived_titles:
        row["derivedTitle"] = sessions.title(reader, session.session_id)
    if params.include_last_message:
        row["lastMessagePreview"] = sessions.preview(reader, session.session_id)
    return row


METHODS: Final = (
    Method("chat.history", ChatHistoryParams, chat_history),
    Method("sessions.list", SessionsListParams, sessions_list),
)
