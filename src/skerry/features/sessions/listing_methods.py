"""Methods that read sessions: list, describe, preview, resolve."""

from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.gateway.methods import rows
from skerry.model.ids import SessionKey
from skerry.model.message import AssistantMessage, ToolResultMessage
from skerry.model.session import SessionEntry, TranscriptEntry
from skerry.ports.model import ModelInfo
from skerry.store import DATABASE, Reader, session_listing, sessions
from skerry.store.session_listing import SessionFilter

_MINUTE_MS: Final = 60_000
_MAX_CANDIDATES: Final = 10
_MAX_SESSIONS: Final = 1000


class SessionsListParams(Params):
    """Parameters of `sessions.list`. A page has at most 1,000 sessions, whatever `limit` says."""

    ignored: ClassVar = {
        **dict.fromkeys(
            (
                *("creatorId", "ownerId", "ownerFirst", "includePeople"),
                *("involvingMe", "involvingProfileId", "profileRelation"),
            ),
            "Every conversation belongs to the one owner.",
        ),
        "includeActivitySummary": "`status` and events report active runs.",
    }

    limit: Annotated[int, Field(ge=1, le=1 << 40)] = 200
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    active_minutes: Annotated[int, Field(ge=1, le=5_256_000)] | None = None
    agent_id: Name | None = None
    label: Name | None = None
    spawned_by: Name | None = None
    search: Annotated[str, Field(max_length=512)] = ""
    archived: bool | Literal["all"] = False
    include_derived_titles: bool = False
    include_last_message: bool = False
    include_global: bool = False
    include_unknown: bool = False
    configured_agents_only: bool = False
    require_last_interaction: bool = False
    sort_by: Literal["updatedAt", "lastInteractionAt", "activity"] | None = None
    active_only: bool = False
    exclude_cron: bool = False
    exclude_subagents: bool = False
    exclude_system: bool = False
    pinned: bool | None = None
    workspace_dir: Name | None = None
    board_face: Literal["chat", "dashboard"] | None = None
    has_board: bool | None = None
    group: Name | None = None
    project_id: Name | None = None

    @property
    def asks_for_none(self) -> bool:
        """Returns true for a filter that no conversation matches: a board, a project."""
        nowhere = (self.group, self.project_id)
        return any(nowhere) or self.has_board is True or self.board_face == "dashboard"


class SessionsDescribeParams(Params):
    """Parameters of `sessions.describe`."""

    key: Name
    agent_id: Name | None = None
    include_derived_titles: bool = False
    include_last_message: bool = False


class SessionsPreviewParams(Params):
    """Parameters of `sessions.preview`."""

    keys: Annotated[list[Name], Field(min_length=1, max_length=64)]
    limit: Annotated[int, Field(ge=1, le=50)] = 12
    max_chars: Annotated[int, Field(ge=20, le=2000)] = 240


class SessionsResolveParams(Params):
    """Parameters of `sessions.resolve`: one of `key`, `sessionId` and `label`."""

    refused: ClassVar = dict.fromkeys(
        ("shortId", "slugHint", "reference"), "conversations have no short names."
    )

    key: Name | None = None
    session_id: Name | None = None
    label: Name | None = None
    agent_id: Name | None = None
    spawned_by: Name | None = None
    include_global: bool = False
    include_unknown: bool = False
    allow_missing: bool = False


async def sessions_list(call: Call, params: SessionsListParams) -> Json:
    """Returns sessions, latest used first."""
    context = call.context
    model = (await context.models.status()).model
    query = _query(call, params)
    limit = min(params.limit, _MAX_SESSIONS)

    def read(reader: Reader) -> tuple[int, list[Json]]:
        if params.asks_for_none:
            return 0, []
        matches = session_listing.recent(reader, query, limit=limit, offset=params.offset)
        listed: list[Json] = [
            _row(reader, session, params, call.protocol, model) for session in matches
        ]
        return session_listing.count(reader, query), listed

    total, listed = await context.store.read(read)
    payload: dict[str, Json] = {
        "ts": context.clock.now_ms(),
        "path": str(context.config().state_dir / DATABASE),
        "count": len(listed),
        "defaults": {
            "modelProvider": model.provider if model else None,
            "model": model.id if model else None,
            "contextTokens": model.context_window if model else None,
        },
        "sessions": listed,
    }
    if call.protocol > 3:  # noqa: PLR2004 - the version of the protocol
        end = params.offset + len(listed)
        config = context.config()
        level = config.thinking(config.agents.default_id)
        payload["defaults"] |= {
            **rows.thinking(model, level),
            "agentRuntime": rows.runtime(),
            "modelSelectionTarget": "session",
        }
        payload |= {
            "totalCount": total,
            "limitApplied": limit,
            "nextOffset": end if end < total else None,
            "hasMore": end < total,
            "owners": [],
        }
    return payload


async def sessions_describe(call: Call, params: SessionsDescribeParams) -> Json:
    """Returns the row of one session, or `null`."""
    key = call.session_key(params.key, params.agent_id)
    model = (await call.context.models.status()).model

    def read(reader: Reader) -> Json:
        session = sessions.find(reader, str(key))
        return session and _row(reader, session, params, call.protocol, model)

    session_row = await call.context.store.read(read)
    return {"session": session_row}


async def sessions_preview(call: Call, params: SessionsPreviewParams) -> Json:
    """Returns the last messages of sessions, shortened."""
    keys = [(text, call.session_key(text, None)) for text in params.keys]

    def read(reader: Reader) -> list[Json]:
        return [_preview(reader, text, key, params) for text, key in keys]

    previews = await call.context.store.read(read)
    return {"ts": call.context.clock.now_ms(), "previews": previews}


async def sessions_resolve(call: Call, params: SessionsResolveParams) -> Json:
    """Returns the key of the named session.

    Raises:
        RefusedError: no name was passed, or none or several sessions match.
    """
    values = (params.key, params.session_id, params.label)
    named = [value for value in values if value is not None]
    if len(named) != 1:
        hint = " (not multiple)" if named else ""
        raise RefusedError(f"Provide either key, sessionId, or label{hint}")
    (name,) = named
    matches = await call.context.store.read(lambda reader: _resolve(reader, call, params))
    if len(matches) == 1:
        key = SessionKey.parse(matches[0].key)
        return {"ok": True, "key": matches[0].key, "agentId": key.agent}
    if matches:
        keys = ", ".join(session.key for session in matches[:_MAX_CANDIDATES])
        raise RefusedError(f"Multiple sessions found with label: {name} ({keys})")
    if params.allow_missing:
        return {"ok": False}
    kind = "label" if params.label else ""
    raise RefusedError(f"No session found{f' with {kind}' if kind else ''}: {name}")


def _query(call: Call, params: SessionsListParams) -> SessionFilter:
    config = call.context.config()
    included = {"global": params.include_global, "unknown": params.include_unknown}
    minutes = params.active_minutes
    agents = frozenset(config.agents.ids) if params.configured_agents_only else None
    if params.workspace_dir is not None:
        folder = Path(params.workspace_dir)
        agents = frozenset(
            agent for agent in config.agents.ids if config.workspace(agent) == folder
        )
    runs = call.context.dispatcher.queue().sessions if params.active_only else ()
    excluded = {
        "cron": params.exclude_cron or params.exclude_system,
        "subagent": params.exclude_subagents,
        "hook": params.exclude_system,
    }
    return SessionFilter(
        agent=params.agent_id,
        agents=agents,
        keys=frozenset(run.key for run in runs) if params.active_only else None,
        excluded_kinds=frozenset(name for name, out in excluded.items() if out),
        pinned=params.pinned,
        spawned_by=str(call.session_key(params.spawned_by, None)) if params.spawned_by else None,
        person_wrote=params.require_last_interaction,
        by_last_message=params.sort_by == "lastInteractionAt",
        label=params.label,
        search=params.search.strip(),
        active_since=call.context.clock.now_ms() - minutes * _MINUTE_MS if minutes else 0,
        archived=None if params.archived == "all" else params.archived,
        unlisted=frozenset(name for name in rows.GLOBAL_SCOPES if not included[name]),
    )


def _row(
    reader: Reader,
    session: SessionEntry,
    params: SessionsListParams | SessionsDescribeParams,
    protocol: int,
    model: ModelInfo | None,
) -> Json:
    optional: dict[str, Json] = {}
    if params.include_derived_titles:
        optional["derivedTitle"] = session.label or sessions.title(reader, session.session_id)
    if params.include_last_message:
        optional["lastMessagePreview"] = sessions.preview(reader, session.session_id)
    return rows.row(session, protocol, model, **optional)


def _preview(reader: Reader, text: str, key: SessionKey, params: SessionsPreviewParams) -> Json:
    session = sessions.find(reader, str(key))
    if session is None:
        return {"key": text, "status": "missing", "items": []}
    entries = sessions.entries(reader, session.session_id, limit=params.limit)
    items = [_item(entry, params.max_chars) for entry in entries]
    return {"key": text, "status": "ok" if items else "empty", "items": items}


def _item(entry: TranscriptEntry, max_chars: int) -> Json:
    match entry.message:
        case ToolResultMessage():
            role = "tool"
        case AssistantMessage():
            role = "assistant"
        case _:
            role = "user"
    text = sessions.text_of(entry.message)
    if not text and isinstance(entry.message, AssistantMessage):
        text = "call " + ", ".join(call.name for call in entry.message.tool_calls)
    return {"role": role, "text": text if len(text) <= max_chars else text[: max_chars - 1] + "…"}


def _resolve(reader: Reader, call: Call, params: SessionsResolveParams) -> list[SessionEntry]:
    matches: list[SessionEntry | None] = []
    if params.key is not None:
        key = call.session_key(params.key, params.agent_id)
        matches = [sessions.find(reader, str(key))]
    elif params.session_id is not None:
        matches = [sessions.get(reader, params.session_id)]
    elif params.label is not None:
        query = SessionFilter(params.agent_id, label=params.label)
        matches = list(session_listing.recent(reader, query, limit=_MAX_CANDIDATES + 1))
    if params.spawned_by is not None:
        parent = str(call.session_key(params.spawned_by, None))
        matches = [match for match in matches if match and match.settings.spawned_by == parent]
    return [session for session in matches if session is not None and session.archived is None]


METHODS: Final = (
    Method("sessions.list", SessionsListParams, sessions_list),
    Method("sessions.describe", SessionsDescribeParams, sessions_describe),
    Method("sessions.preview", SessionsPreviewParams, sessions_preview),
    Method("sessions.resolve", SessionsResolveParams, sessions_resolve),
)
