"""Methods that change sessions: patch, reset, delete, restore, compact."""

import uuid
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from pydantic import Field

from skerry.commands.table import CommandCall, tell_command
from skerry.features.sessions import shelving
from skerry.gateway.frames import Json
from skerry.gateway.idempotency import once
from skerry.gateway.method import Call, Method, Name, OnceParams, RefusedError
from skerry.gateway.methods import overrides, rows
from skerry.gateway.methods.labels import Label, check_free
from skerry.hooks.events import WEBCHAT
from skerry.model.ids import SessionId, SessionKey
from skerry.model.session import SessionEntry, SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.sessions import session_hooks
from skerry.store import DATABASE, Reader, Unit, archive, sessions

NOTHING_TO_COMPACT: Final = "nothing to compact"
_HARMLESS: Final = frozenset({"label", "pinned", "unread"})
"""Fields that a writer may patch; the others decide what a run does or costs, and need admin."""
_MARK: Final = "expected_marked_unread_at"


class SessionParams(OnceParams):
    """Parameters of a method that changes one session."""

    key: Name
    agent_id: Name | None = None
    expected_session_id: Name | None = None
    expected_lifecycle_revision: Name | None = None


class SessionsPatchParams(SessionParams):
    """Parameters of `sessions.patch`; null clears a setting; an absent setting is kept."""

    ignored: ClassVar = {
        "autoLabel": "A conversation without a label shows its first message.",
    }
    refused: ClassVar = {
        **dict.fromkeys(
            ("icon", "color", "category", "boardFace", "boardPresentation"),
            "a conversation stores only its label and its pin.",
        ),
        **dict.fromkeys(
            ("statusNote", "attention", "ttlMinutes"),
            "conversations have no status notes.",
        ),
        **dict.fromkeys(
            ("elevatedLevel", "execHost", "execSecurity", "execAsk", "execNode", "sandboxMode"),
            "no agent of this gateway runs commands.",
        ),
        **dict.fromkeys(
            ("permissionMode", "toolOverrides", "inheritedToolAllow", "inheritedToolDeny"),
            "tools are allowed by the configuration, not by conversation.",
        ),
        **dict.fromkeys(
            (
                "expectedPermissionMode",
                "expectedToolOverrides",
                "expectedSandboxMode",
                "expectedNativeRuntimeConsent",
            ),
            "conversations have no such setting.",
        ),
        **dict.fromkeys(
            ("spawnedBy", "spawnDepth", "completionOwnerSessionKey", "inheritedToolPolicyVersion"),
            "conversations have no parents.",
        ),
        **dict.fromkeys(
            ("agentRuntime", "nativeRuntimeConsent"), "all runs use the gateway's runtime."
        ),
        "contextWindow": "the model determines the window; choose another model.",
        "fastMode": "models are called at one speed.",
        "traceLevel": "logging is set for the whole gateway: `logging.level`.",
        "groupActivation": "the section of the channel decides when an agent answers in a group.",
    }
    usual: ClassVar = {"elevatedLevel": "off", "sandboxMode": "off", "boardFace": "chat"}

    label: Label | None = None
    model: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    thinking_level: Literal["off", "minimal", "low", "medium", "high", "xhigh"] | None = None
    verbose_level: Literal["off", "on", "full"] | None = None
    reasoning_level: Literal["off", "on", "stream"] | None = None
    response_usage: Literal["off", "on", "tokens", "full"] | None = None
    send_policy: Literal["allow", "deny"] | None = None
    pinned: bool | None = None
    unread: bool | None = None
    archived: bool | None = None
    """Only without other settings: true removes the conversation from the list, false restores
    it."""
    expected_marked_unread_at: Annotated[float, Field(ge=0)] | None = None
    """Time of the mark that the client read; with null, `unread: false` keeps a mark that a person
    set."""


class SessionsResetParams(OnceParams):
    """Parameters of `sessions.reset`."""

    key: Name
    agent_id: Name | None = None
    expected_session_id: Name | None = None
    reason: Literal["new", "reset"] = "reset"


class SessionsDeleteParams(SessionParams):
    """Parameters of `sessions.delete`."""

    ignored: ClassVar = {
        "deleteTranscript": "The transcript is archived; `memory.forget` and the retention of"
        " `session.maintenance` remove the messages."
    }
    refused: ClassVar = {
        "archivedOnly": "archived sessions are removed by `sessions.prune`, and by age."
    }

    expected_session_updated_at: Annotated[float, Field(ge=0)] | None = None
    emit_lifecycle_hooks: bool = True


class SessionsRestoreParams(OnceParams):
    """Parameters of `sessions.restore`."""

    session_id: Name


class SessionsCompactParams(OnceParams):
    """Parameters of `sessions.compact`."""

    ignored: ClassVar = {"maxLines": "The conversation is summarised; all messages are kept."}

    key: Name
    agent_id: Name | None = None
    instructions: Annotated[str, Field(max_length=4000)] = ""


async def sessions_patch(call: Call, params: SessionsPatchParams) -> Json:
    """Changes the settings of a conversation, and creates it if needed."""
    context = call.context
    key = call.session_key(params.key, params.agent_id)
    sent = params.model_fields_set - SessionParams.model_fields.keys() - {_MARK}
    if not sent <= _HARMLESS:
        overrides.need_admin(call)
    if params.archived is not None:
        return await _shelved(call, params, key, is_only_change=sent == {"archived"})
    changes = await _changes(call, params, sent)
    label = (params.label or "").strip() if "label" in sent else None
    now, new_id = context.clock.now_ms(), SessionId(str(uuid.uuid4()))

    def write(unit: Unit) -> SessionEntry:
        call.effect(unit)
        expected = (params.expected_session_id, params.expected_lifecycle_revision)
        _expect(sessions.find(unit, str(key)), params.key, *expected)
        session_id, _ = sessions.ensure(unit, key, new_id, now)
        session = _present(unit, session_id)
        if label:
            check_free(unit, key.agent, label, str(key))
        keeps_unread = _only_seen(params) and session.settings.unread
        applied = {
            name: value
            for name, value in changes.items()
            if not (keeps_unread and name == "unread")
        }
        settings = msgspec.structs.replace(session.settings, **applied)
        new_label = session.label if label is None else label
        archive.change(unit, session_id, label=new_label, settings=settings)
        return _present(unit, session_id)

    session = await context.store.write(write)
    return await _patched(call, key, session)


async def _changes(
    call: Call, params: SessionsPatchParams, sent: AbstractSet[str]
) -> dict[str, Any]:
    """Returns the settings of the call, without the label."""
    changes = {name: getattr(params, name) for name in sent - {"label", "archived"}}
    model = changes.get("model")
    if model is not None:
        changes["model"] = await overrides.known_model(call, model)
    for flag in {"pinned", "unread"} & changes.keys():
        changes[flag] = bool(changes[flag])
    if changes.get("thinking_level"):
        changes["thinking_level"] = ThinkingLevel(changes["thinking_level"])
    return changes


async def _shelved(
    call: Call, params: SessionsPatchParams, key: SessionKey, *, is_only_change: bool
) -> Json:
    """Archives the conversation, or restores it."""
    if not is_only_change:
        raise RefusedError(
            "`archived` cannot be combined with other properties: change them in another call."
        )

    def check(session: SessionEntry | None) -> None:
        expected = (params.expected_session_id, params.expected_lifecycle_revision)
        _expect(session, params.key, *expected)

    change = shelving.put_away if params.archived else shelving.bring_back
    return await _patched(call, key, await change(call, key, check))


async def _patched(call: Call, key: SessionKey, session: SessionEntry) -> Json:
    """Sends the change to clients, and returns the present session."""
    context = call.context
    context.session_events.changed([session.session_id], "patch")
    return {
        "ok": True,
        "path": str(context.config().state_dir / DATABASE),
        "key": str(key),
        "entry": rows.entry(context, session),
        "resolved": await _resolved(call, session.settings),
    }


def _only_seen(params: SessionsPatchParams) -> bool:
    """Returns true when a client only read the conversation, which keeps a mark of a person."""
    return _MARK in params.model_fields_set and params.unread is False


async def sessions_reset(call: Call, params: SessionsResetParams) -> Json:
    """Starts a new session of a conversation; archives the old one and stops its runs."""
    context = call.context
    key = call.session_key(params.key, params.agent_id)
    if params.expected_session_id is not None:  # before any run is stopped
        present = await context.store.read(lambda reader: sessions.find(reader, str(key)))
        _expect(present, params.key, params.expected_session_id)
    tell_command(context.hooks, CommandCall(params.reason, "", key, WEBCHAT, is_owner=True))
    new_id, now = SessionId(str(uuid.uuid4())), context.clock.now_ms()

    def write(unit: Unit) -> tuple[SessionEntry | None, SessionEntry]:
        call.effect(unit)
        old = archive.reset(unit, key, new_id, now)
        return old, _present(unit, new_id)

    async def work() -> tuple[SessionEntry | None, SessionEntry]:
        present = await context.store.read(lambda reader: sessions.find(reader, str(key)))
        _expect(present, params.key, params.expected_session_id)
        await session_hooks.will_reset(context.hooks, context.store, present, params.reason)
        return await context.store.write(write)

    old, session = await context.dispatcher.run_exclusive(key, work, stopping=params.reason)
    session_hooks.ended(context.hooks, old, params.reason)
    session_hooks.start(context.hooks, key, session.session_id, old)
    context.session_events.changed([session.session_id], params.reason)
    entry = rows.entry(context, session)
    answer: dict[str, Json] = {"ok": True, "key": str(key), "entry": entry}
    if call.protocol > 3:  # noqa: PLR2004 - the version of the protocol
        answer["resolved"] = await _resolved(call, session.settings)
    return answer


async def sessions_delete(call: Call, params: SessionsDeleteParams) -> Json:
    """Archives a conversation and removes it from the list. Its runs are stopped."""
    context = call.context
    key = call.session_key(params.key, params.agent_id)
    if rows.is_main(key):
        message = f"Cannot delete the main session ({key})."
        remedy = "`skerry sessions reset` archives its session and starts a new one."
        raise RefusedError(message, remedy)
    # Before any run is stopped.
    _expect_seen(await context.store.read(lambda reader: sessions.find(reader, str(key))), params)
    now = context.clock.now_ms()

    def write(unit: Unit) -> SessionEntry | None:
        _expect_seen(sessions.find(unit, str(key)), params)
        call.effect(unit)
        return archive.delete(unit, key, now)

    session = await context.dispatcher.run_exclusive(
        key, lambda: context.store.write(write), stopping="delete"
    )
    if session is not None:
        context.session_events.changed([session.session_id], "delete")
    if params.emit_lifecycle_hooks:
        session_hooks.ended(context.hooks, session, "delete")
    return {
        "ok": True,
        "key": str(key),
        "deleted": session is not None,
        "archived": [rows.file(context, session)] if session and session.tail else [],
    }


async def sessions_restore(call: Call, params: SessionsRestoreParams) -> Json:
    """Restores an archived session, and archives the present session of its key."""
    context = call.context
    archived = await context.store.read(lambda reader: sessions.get(reader, params.session_id))
    if archived is None:
        raise RefusedError(f"unknown session id: {params.session_id}")
    key, now = SessionKey.parse(archived.key), context.clock.now_ms()

    def write(unit: Unit) -> tuple[SessionEntry, bool, SessionEntry | None]:
        session = _present(unit, params.session_id)
        if session.archived is None:  # or another request restored it
            return session, False, None
        call.effect(unit)
        displaced = archive.restore(unit, session, now)
        return _present(unit, params.session_id), True, displaced

    if archived.archived is not None:
        context.session_events.skip(archived)
    session, restored, displaced = await context.dispatcher.run_exclusive(
        key, lambda: context.store.write(write)
    )
    if restored:
        session_hooks.ended(context.hooks, displaced, "restore")
        session_hooks.start(context.hooks, key, session.session_id, displaced)
    context.session_events.changed([session.session_id], "restore")
    return {
        "ok": True,
        "key": session.key,
        "sessionId": session.session_id,
        "restored": restored,
        "displaced": displaced.session_id if displaced else None,
        "entry": rows.entry(context, session),
    }


async def sessions_compact(call: Call, params: SessionsCompactParams) -> Json:
    """Summarises the earlier part of a conversation now; keeps all messages."""
    context = call.context
    key = call.session_key(params.key, params.agent_id)
    session = await context.store.read(lambda reader: sessions.find(reader, str(key)))
    answer: dict[str, Json] = {"ok": True, "key": str(key), "compacted": False}
    if session is None:
        return answer | {"reason": "no sessionId"}
    compaction = await context.dispatcher.compact(key, params.instructions)
    if compaction is not None:
        context.session_events.changed([session.session_id], "compact")
        answer |= {"compacted": True, "kept": compaction.kept_messages}
        if call.protocol > 3:  # noqa: PLR2004 - the version of the protocol
            answer["result"] = {"tokensBefore": compaction.before, "tokensAfter": compaction.after}
        return answer
    if call.protocol < 4:  # noqa: PLR2004 - the version of the protocol
        return answer | {"kept": session.tail}
    return answer | {"reason": NOTHING_TO_COMPACT}


def _present(reader: Reader, session_id: str) -> SessionEntry:
    session = sessions.get(reader, session_id)
    if session is None:
        raise RefusedError(f"unknown session id: {session_id}")
    return session


def _expect(session: SessionEntry | None, key: str, *expected: str | None) -> None:
    """Refuses a change when the session differs from the one that the client read."""
    for session_id in expected:
        if session_id is not None and (session is None or session.session_id != session_id):
            raise _changed(key)


def _changed(key: str) -> RefusedError:
    message = f"Session {key} changed since it was read; read it again."
    return RefusedError(message)


def _expect_seen(session: SessionEntry | None, params: SessionsDeleteParams) -> None:
    _expect(session, params.key, params.expected_session_id, params.expected_lifecycle_revision)
    at = params.expected_session_updated_at
    if at is not None and (session is None or session.updated_at != at):
        raise _changed(params.key)


async def _resolved(call: Call, settings: SessionSettings) -> Json:
    """Returns the model of the next run."""
    if settings.model is not None:
        provider, _, name = settings.model.partition("/")
        return {"modelProvider": provider, "model": name}
    model = (await call.context.models.status()).model
    return {"modelProvider": model.provider, "model": model.id} if model else {}


METHODS: Final = (
    Method("sessions.patch", SessionsPatchParams, once("sessions.patch", sessions_patch)),
    Method("sessions.reset", SessionsResetParams, once("sessions.reset", sessions_reset)),
    Method("sessions.delete", SessionsDeleteParams, once("sessions.delete", sessions_delete)),
    Method("sessions.restore", SessionsRestoreParams, once("sessions.restore", sessions_restore)),
    Method(
        "sessions.compact",
        SessionsCompactParams,
        once("sessions.compact", sessions_compact, first=True),
    ),
)
