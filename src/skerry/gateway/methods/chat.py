"""Methods about one conversation: its history, the data for opening a page, an inserted note."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Raw
from pydantic import Field

from skerry.gateway.attachments import has_images, without_images
from skerry.gateway.frames import Json
from skerry.gateway.idempotency import once
from skerry.gateway.late import answer_pictures
from skerry.gateway.method import (
    Call,
    EntryId,
    Message,
    Method,
    Name,
    NoParams,
    OnceParams,
    Params,
    RefusedError,
)
from skerry.gateway.methods import agents, commands, models, rows
from skerry.hooks.events import RunContext
from skerry.lanes.collected_prompt import messages_in
from skerry.model import message
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import AssistantMessage, TextBlock, Usage, UserMessage
from skerry.model.origin import Origin
from skerry.model.session import SessionEntry, TranscriptEntry, entry_id, entry_seq
from skerry.model.thinking import ThinkingLevel
from skerry.ports.dispatch import QueuedRun
from skerry.ports.model import ModelInfo
from skerry.replies.shaping import as_shown
from skerry.runtime.run_hooks import TranscriptHooks
from skerry.store import Reader, Unit, compactions, runs, sessions

_HISTORY_BYTES: Final = 6 * 1024 * 1024
_MAX_READS: Final = 5
_CUT_MARK: Final = "\n…(cut)…"


class ChatHistoryParams(Params):
    """Parameters of `chat.history`. `offset` leaves out that many of the newest messages.

    With `sessionId` the transcript is that session's, also when it is archived. With `messageId`
    the page is the one that has this message in its middle.
    """

    ignored: ClassVar = {
        "pendingBefore": "`activeRuns` lists every waiting message.",
        "inputRunIds": "Accepted messages are in the transcript or in `activeRuns`.",
    }
    refused: ClassVar = {
        "cursor": "answers have none; set `offset` to `nextOffset` of the last answer."
    }

    session_key: Name
    agent_id: Name | None = None
    session_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    message_id: EntryId | None = None
    max_chars: Annotated[int, Field(ge=1, le=500_000)] | None = None
    max_bytes: Annotated[int, Field(ge=1024, le=1 << 40)] = _HISTORY_BYTES


class ChatStartupParams(ChatHistoryParams):
    """Parameters of `chat.startup`: those of `chat.history`."""

    refused: ClassVar = {
        **ChatHistoryParams.refused,
        **dict.fromkeys(("shortId", "slugHint"), "conversations have no short names."),
    }


class ChatMetadataParams(Params):
    """Parameters of `chat.metadata`."""

    ignored: ClassVar = {"authProfileId": "Models are the same for every client."}

    agent_id: Name | None = None
    session_key: Name | None = None


class ChatInjectParams(OnceParams):
    """Parameters of `chat.inject`."""

    session_key: Name
    message: Message
    agent_id: Name | None = None
    label: Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] | None = None


async def chat_startup(call: Call, params: ChatStartupParams) -> Json:
    """Returns the data for opening a page: the conversation, the agents, models and commands."""
    payload = await chat_history(call, params)
    payload["agentsList"] = await agents.agents_list(call, NoParams())
    payload["metadata"] = await chat_metadata(call, ChatMetadataParams())
    return payload


async def chat_metadata(call: Call, _params: ChatMetadataParams) -> Json:
    """Returns the commands and models that a message may name."""
    listed = await models.models_list(call, models.ModelsListParams())
    offered = await commands.commands_list(call, commands.CommandsListParams())
    return {**offered, **listed}


async def chat_history(call: Call, params: ChatHistoryParams) -> dict[str, Json]:
    """Returns a conversation, newest last, and the runs that are not in it yet.

    If a run began or ended while the transcript was read, it is read again.
    """
    key = call.session_key(params.session_key, params.agent_id)
    model = (await call.context.models.status()).model
    thinking = call.context.config().thinking(key.agent) or ThinkingLevel.OFF
    line = call.context.dispatcher.line
    payload: dict[str, Json] = {}
    running, files = line(key), dict[int, list[str]]()
    for _ in range(_MAX_READS):
        payload, files = await call.context.store.read(
            lambda reader: _read(reader, key, params, call.protocol, model)
        )
        payload["thinkingLevel"] = payload.get("thinkingLevel") or thinking
        before, running = running, line(key)
        if running == before:
            break
    if files:
        max_bytes = min(params.max_bytes, _HISTORY_BYTES)
        await answer_pictures.add_pictures(call, key.agent, payload, files, max_bytes)
    text = call.context.broadcast.text
    active: list[Json] = [
        {"runId": run.run_id, "text": text(run.run_id), **_not_written(run)} for run in running
    ]
    payload["activeRuns"] = active
    if active:
        payload["inFlightRun"] = active[0]
    return payload


def _not_written(run: QueuedRun) -> dict[str, Json]:
    """Returns the messages of the run that are not in the transcript yet.

    They are in `queued` while the run waits for its turn, and then in `said`.
    """
    if run.waits:
        return {"queued": run.says[-1][1]}
    messages: list[Json] = [{"runId": run_id, "text": text} for run_id, text in run.says]
    return {"said": messages} if messages else {}


def _read(
    reader: Reader,
    key: SessionKey,
    params: ChatHistoryParams,
    protocol: int,
    model: ModelInfo | None,
) -> tuple[dict[str, Json], dict[int, list[str]]]:
    """Returns the payload, and the files that answers reference, by the index of the message."""
    session = find(reader, key, params.session_id)
    if session is None:
        empty_page = {"messages": [], "totalMessages": 0, "hasMore": False}
        return {"sessionKey": str(key), "sessionId": None, **empty_page}, {}
    offset = _offset(params, session.tail)
    newest = session.tail - offset
    entries = sessions.entries(reader, session.session_id, limit=params.limit, before=newest + 1)
    lines: list[Raw] = []
    files: list[list[str]] = []
    size, max_bytes = 0, min(params.max_bytes, _HISTORY_BYTES)
    for entry in reversed(entries):
        if sessions.is_compaction(entry.message):
            summary = compactions.at(reader, session.session_id, entry.seq)
            line = msgspec.json.encode(_divider(entry, compactions.pi_fields(summary)))
        else:
            collected = _collected(reader, entry, params.max_chars)
            line = transcript_line(entry, protocol, params.max_chars, collected=collected)
        if size + len(line) > max_bytes and has_images(entry.message):
            line = without_images(line)
        size += len(line)
        if lines and size > max_bytes:
            break
        lines.append(Raw(line))
        files.append(_named_files(entry))
    settings = session.settings
    payload: dict[str, Json] = {
        "sessionKey": str(key),
        "sessionId": session.session_id,
        "messages": lines[::-1],
        "totalMessages": session.tail,
        "hasMore": len(lines) < newest,
        "thinkingLevel": settings.thinking_level,
        "sessionInfo": rows.row(session, protocol, model),
    }
    if settings.verbose_level is not None:
        payload["verboseLevel"] = settings.verbose_level
    if payload["hasMore"]:
        payload["nextOffset"] = offset + len(lines)
    return payload, {index: names for index, names in enumerate(files[::-1]) if names}


def _named_files(entry: TranscriptEntry) -> list[str]:
    answer = entry.message
    if not isinstance(answer, AssistantMessage) or "MEDIA:" not in answer.text:
        return []
    return answer_pictures.references(answer)


def _offset(params: ChatHistoryParams, tail: int) -> int:
    """Returns the number of newest messages to leave out."""
    if params.message_id is None:
        return params.offset
    return max(0, tail - entry_seq(params.message_id) - params.limit // 2)


def find(reader: Reader, key: SessionKey, session_id: str | None) -> SessionEntry | None:
    """Returns the present session of the conversation, or the session with `session_id`.

    Raises:
        RefusedError: the session with this id belongs to another conversation.
    """
    if session_id is None:
        return sessions.find(reader, str(key))
    session = sessions.get(reader, session_id)
    if session is None or session.key != str(key):
        raise RefusedError(f"session {session_id!r} is not a session of {key}")
    return session


def _collected(reader: Reader, entry: TranscriptEntry, max_chars: int | None) -> list[Json]:
    """Returns the messages that were collected into one prompt, with their run ids if known."""
    if not isinstance(entry.message, UserMessage):
        return []
    texts = [text[:max_chars] for text in messages_in(entry.message.text)]
    ids = runs.sharing(reader, entry.run_id) if texts else []
    if len(ids) != len(texts):
        return [{"text": text} for text in texts]
    return [{"runId": run_id, "text": text} for run_id, text in zip(ids, texts, strict=True)]


def transcript_line(
    entry: TranscriptEntry,
    protocol: int,
    max_chars: int | None = None,
    *,
    collected: Sequence[Json] = (),
) -> bytes:
    """Returns the encoded message, with the fields that version 4 of the protocol adds.

    `collected` are the messages that were collected into this one.
    """
    if sessions.is_compaction(entry.message):
        return msgspec.json.encode(_divider(entry))
    shown = as_shown(entry.message)
    encoded = message.encode(_cut(shown, max_chars) if max_chars else shown)
    if protocol < 4:  # noqa: PLR2004 - the version of the protocol
        return encoded
    about: dict[str, Json] = {
        "id": entry_id(entry.seq),
        "seq": entry.seq,
        "recordTimestampMs": entry.at,
    }
    added: dict[str, Json] = {"__openclaw": about}
    if entry.message.origin is not None:
        about["origin"] = entry.message.origin
    if entry.run_id:
        about["runId"] = entry.run_id
        if isinstance(entry.message, UserMessage):
            added["idempotencyKey"] = f"{entry.run_id}:user"
    if collected:
        about["said"] = list(collected)
    return encoded[:-1] + b"," + msgspec.json.encode(added)[1:]


def _divider(entry: TranscriptEntry, compaction: Json = None) -> dict[str, Json]:
    """Returns the divider that pages show in place of summarised entries, in OpenClaw's form.

    `compaction` has additional fields for an export.
    """
    about: dict[str, Json] = {
        "kind": "compaction",
        "id": entry_id(entry.seq),
        "seq": entry.seq,
        "recordTimestampMs": entry.at,
    }
    if compaction is not None:
        about["compaction"] = compaction
    return {
        "role": "system",
        "content": [{"type": "text", "text": "Compaction"}],
        "timestamp": entry.at,
        "__openclaw": about,
    }


def _cut(uncut: message.Message, max_chars: int) -> message.Message:
    """Returns the message with every text cut to `max_chars` characters."""
    blocks: tuple[Any, ...] = tuple(
        TextBlock(block.text[:max_chars] + _CUT_MARK)
        if isinstance(block, TextBlock) and len(block.text) > max_chars
        else block
        for block in uncut.content
    )
    return msgspec.structs.replace(uncut, content=blocks)


async def chat_inject(call: Call, params: ChatInjectParams) -> Json:
    """Writes a note of the assistant into the transcript without a run, and sends an event."""
    context = call.context
    key = call.session_key(params.session_key, params.agent_id)
    now = context.clock.now_ms()
    text = f"[{params.label}]\n\n{params.message}" if params.label else params.message
    note = AssistantMessage(
        (TextBlock(text),),
        "",
        "skerry",
        "gateway-injected",
        Usage(),
        "stop",
        now,
        None,
        Origin.PLUGIN,
    )

    async def write() -> tuple[str, int, message.Message]:
        session = await context.store.read(lambda reader: sessions.find(reader, str(key)))
        if session is None:
            raise RefusedError("session not found")
        entry = await _after_hooks(call, session, note)

        def append(unit: Unit) -> int:
            call.effect(unit)
            tail = sessions.tail(unit, session.session_id)
            return sessions.append(unit, session.session_id, tail, "", [entry], now)

        return session.session_id, await context.store.write(append), entry

    # During a run the note would take the number of the run's next entry.
    session_id, seq, entry = await context.dispatcher.run_exclusive(key, write)
    event: Json = {
        "runId": f"inject-{session_id}-{seq}",
        "sessionKey": str(key),
        "agentId": key.agent,
        "seq": 0,
        "state": "final",
        "message": Raw(message.encode(entry)),
    }
    context.broadcast.send("chat", event)
    return {"ok": True, "messageId": entry_id(seq)}


async def _after_hooks(
    call: Call, session: SessionEntry, note: AssistantMessage
) -> message.Message:
    """Returns the note as the hooks change it.

    Raises:
        RefusedError: a hook dropped it.
    """
    workspace = call.context.config().workspace(session.agent_id)
    about = RunContext(
        run_id=RunId(""),
        agent_id=session.agent_id,
        session_key=session.key,
        session_id=session.session_id,
        workspace=workspace,
    )
    entries = await TranscriptHooks(call.context.hooks).entries([note], about)
    if not entries:
        raise RefusedError("a hook of a plugin dropped the note")
    return entries[0]


METHODS: Final = (
    Method("chat.history", ChatHistoryParams, chat_history),
    Method("chat.startup", ChatStartupParams, chat_startup),
    Method("chat.metadata", ChatMetadataParams, chat_metadata),
    Method("chat.inject", ChatInjectParams, once("chat.inject", chat_inject)),
)
