"""The tools `session_status`, `sessions_list`, `sessions_history` and `agents_list`."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from skerry.features.session_tools.common import (
    ALIASES,
    READ_ONLY,
    HostTool,
    caller_of,
    is_visible,
    reply,
)
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import SessionKey, SessionKind
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import ADMIN, Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.arguments import named

MAX_BYTES: Final = 80_000
"""Maximum size of a history in bytes."""
MAX_CHARS: Final = 4000
"""Maximum length of one text of a history, in characters."""
_MAX_ROWS: Final = 200
_KINDS: Final = {
    SessionKind.MAIN: "main",
    SessionKind.CRON: "cron",
    SessionKind.HOOK: "hook",
    SessionKind.NODE: "node",
    SessionKind.GROUP: "group",
    SessionKind.CHANNEL: "group",
}
_STATUS: Final = (
    "model",
    "modelProvider",
    "contextTokens",
    "totalTokens",
    "inputTokens",
    "outputTokens",
    "compactionCount",
    "thinkingLevel",
    "queueMode",
    "updatedAt",
    "sessionId",
)
Kind = Literal["main", "group", "cron", "hook", "node", "other"]


class _Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SessionStatusParams(_Params):
    """Parameters of `session_status`."""

    sessionKey: str | None = Field(default=None, max_length=512)  # noqa: N815 - OpenClaw's name
    model: str | None = Field(default=None, max_length=256, description="provider/model, default.")


class SessionStatus(HostTool):
    """Returns the state of a conversation, and sets its model."""

    verb = Verb.USE
    spec = ToolSpec(
        "session_status",
        "Show a session's model, tokens and state; set its model.",
        SessionStatusParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the state as JSON."""
        params = SessionStatusParams.model_validate(named(arguments, ALIASES))
        caller = caller_of(context)
        key = await self._visible_key(caller, params.sessionKey or str(caller.key))
        if params.model is not None:
            if not context.actor.is_owner or context.actor.is_tainted:
                raise ToolError("Only your owner changes the model here: `/model NAME`.")
            model = None if params.model == "default" else params.model
            await self._host.call(
                "sessions.patch", {"key": str(key), "model": model}, (*READ_ONLY, ADMIN)
            )
        answer = await self._ask("sessions.describe", {"key": str(key)})
        session = (answer or {}).get("session") or {}
        state = {name: session[name] for name in _STATUS if session.get(name) is not None}
        return reply({"sessionKey": str(key), **state}, Origin.MEMORY)


class SessionsListToolParams(_Params):
    """Parameters of `sessions_list`."""

    kinds: tuple[Kind, ...] = Field(default=(), max_length=6)
    limit: int = Field(default=50, ge=1, le=_MAX_ROWS)
    activeMinutes: int | None = Field(default=None, ge=1, le=10_000_000)  # noqa: N815 - OpenClaw's name
    messageLimit: int = Field(default=0, ge=0, le=20)  # noqa: N815 - OpenClaw's name


class SessionsList(HostTool):
    """Lists the conversations that the calling one may see."""

    reads_only = True
    verb = Verb.USE
    spec = ToolSpec(
        "sessions_list",
        "List sessions, latest first, with their last messages.",
        SessionsListToolParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the rows as JSON."""
        params = SessionsListToolParams.model_validate(named(arguments, ALIASES))
        caller, config = caller_of(context), self._host.config()
        filters: dict[str, Any] = {"limit": 1000}
        if params.activeMinutes is not None:
            filters["activeMinutes"] = params.activeMinutes
        rows = (await self._ask("sessions.list", filters))["sessions"]
        visible: list[dict[str, Any]] = []
        for row in rows:
            key = SessionKey.parse(row["key"])
            kind = _KINDS.get(key.kind, "other")
            if params.kinds and kind not in params.kinds:
                continue
            if not is_visible(config, caller, key) and not await self._started(caller, row):
                continue
            visible.append(
                {
                    "key": row["key"],
                    "kind": kind,
                    **{
                        name: row[name]
                        for name in ("label", "displayName", "updatedAt", "sessionId", "model")
                        if row.get(name) is not None
                    },
                }
            )
            if len(visible) == params.limit:
                break
        if params.messageLimit:
            for row in visible:
                history = await self._ask(
                    "chat.history", {"sessionKey": row["key"], "limit": params.messageLimit}
                )
                row["messages"] = texts(history["messages"], includes_tools=False)
        redacted = _redacted(visible, self._host.redact)
        return reply({"count": len(visible), "sessions": redacted}, Origin.TOOL)

    async def _started(self, caller: Caller, row: dict[str, Any]) -> bool:
        """Returns true when a row is of a sub-agent that the conversation may see."""
        return bool(row.get("spawnedBy")) and await self._sees(caller, row["key"])


class SessionsHistoryParams(_Params):
    """Parameters of `sessions_history`."""

    sessionKey: str = Field(max_length=512)  # noqa: N815 - OpenClaw's name
    limit: int = Field(default=50, ge=1, le=1000)
    includeTools: bool = False  # noqa: N815 - OpenClaw's name


class SessionsHistory(HostTool):
    """Returns the messages of a conversation that the calling one may see."""

    reads_only = True
    verb = Verb.USE
    spec = ToolSpec(
        "sessions_history",
        "Show the messages of a session.",
        SessionsHistoryParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the newest messages as JSON: at most 80 KB, each text up to 4,000 characters."""
        renamed = named(arguments, ALIASES, ("sessionKey",))
        params = SessionsHistoryParams.model_validate(renamed)
        key = await self._visible_key(caller_of(context), params.sessionKey)
        history = await self._ask("chat.history", {"sessionKey": str(key), "limit": params.limit})
        messages = texts(history["messages"], includes_tools=params.includeTools)
        redacted = _redacted(messages, self._host.redact)
        newest, size = [], 0
        for message in reversed(redacted):
            size += len(str(message).encode())
            if size > MAX_BYTES:
                break
            newest.append(message)
        return reply(
            {
                "sessionKey": str(key),
                "messages": newest[::-1],
                "truncated": len(newest) < len(messages),
            }
        )


class AgentsListParams(_Params):
    """Parameters of `agents_list`: none."""


class AgentsList(HostTool):
    """Lists the agents that the calling one may address."""

    reads_only = True
    verb = Verb.USE
    spec = ToolSpec("agents_list", "List the agents.", AgentsListParams.model_json_schema())

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the agents as JSON: itself, and the agents that `tools.agentToAgent` allows."""
        AgentsListParams.model_validate(arguments)
        own_agent, config = caller_of(context).key.agent, self._host.config()
        between = config.tools.agent_to_agent
        rows = (await self._ask("agents.list", {}))["agents"]
        agents = [
            {name: row[name] for name in ("id", "name") if row.get(name)}
            for row in rows
            if row["id"] == own_agent or (between.allows(own_agent) and between.allows(row["id"]))
        ]
        return reply({"requester": own_agent, "agents": agents}, Origin.MEMORY)


def texts(messages: list[dict[str, Any]], *, includes_tools: bool) -> list[dict[str, Any]]:
    """Returns role and text of messages; skips pictures and cuts long texts."""
    rows = []
    for message in messages:
        role = message.get("role", "")
        if role == "toolResult" and not includes_tools:
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        text = "\n".join(
            block.get("text", "") for block in blocks if block.get("type") == "text"
        ).strip()
        calls = [block.get("name", "") for block in blocks if block.get("type") == "toolCall"]
        row: dict[str, Any] = {"role": role}
        if text:
            row["text"] = text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + "\u2026"
        if calls and includes_tools:
            row["toolCalls"] = calls
        if len(row) > 1:
            rows.append(row)
    return rows


def _redacted(rows: list[dict[str, Any]], redact: Any) -> list[dict[str, Any]]:
    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, list):
            return [clean(part) for part in value]
        if isinstance(value, dict):
            return {name: clean(part) for name, part in value.items()}
        return value

    return [clean(row) for row in rows]
