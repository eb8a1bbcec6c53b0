"""Shared parts of the conversation tools: offer, visibility, and JSON results."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from skerry.config.root import Config
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import SessionKey
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import READ, Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.tool_host import ToolHost
from skerry.store import Reader, sessions

READ_ONLY: Final = (READ,)
ALIASES: Final = {
    "session_key": "sessionKey",
    "active_minutes": "activeMinutes",
    "message_limit": "messageLimit",
    "include_tools": "includeTools",
    "agent_id": "agentId",
    "timeout_seconds": "timeoutSeconds",
    "base_hash": "baseHash",
}


_MAX_DEPTH: Final = 5
"""Maximum depth of sub-agents."""


class HostTool:
    """Base class: the parts of the gateway, and the offer by configuration.

    The schemas of these tools are too long for every first request, so a model receives them only
    when a profile, `allow` or `alsoAllow` names them.
    """

    verb: ClassVar[Verb]
    spec: ClassVar[ToolSpec]

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns true when the configuration enables the tool for the agent."""
        return self._host.is_chosen(caller.key.agent, self.spec.name)

    async def _visible_key(self, caller: Caller, text: str) -> SessionKey:
        """Returns the key of the conversation that a model names.

        Raises:
            ToolError: the calling conversation may not see it.
        """
        config, key = self._host.config(), SessionKey.parse(text, caller.key.agent)
        descends = partial(_descends, str(key), str(caller.key))
        sees_tree = config.tools.sessions.visibility != "self" and caller.is_private
        if sees_tree and await self._host.store.read(descends):
            return key
        return visible_key(config, caller, text)

    async def _sees(self, caller: Caller, text: str) -> bool:
        """Returns whether the calling conversation may see the conversation with this key."""
        try:
            await self._visible_key(caller, text)
        except ToolError:
            return False
        return True

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        return await self._host.call(method, params, READ_ONLY)


def _descends(key: str, ancestor: str, reader: Reader) -> bool:
    """Returns true when a conversation is a direct or indirect sub-agent of another."""
    for _ in range(_MAX_DEPTH):
        session = sessions.find(reader, key)
        parent = session.settings.spawned_by if session else None
        if parent is None or parent == ancestor:
            return parent is not None
        key = parent
    return False


def caller_of(context: ToolContext) -> Caller:
    """Returns the caller.

    Raises:
        ToolError: the call has no conversation.
    """
    if context.caller is None:
        raise ToolError("The call has no conversation.")
    return context.caller


def is_visible(config: Config, caller: Caller, target: SessionKey) -> bool:
    """Returns true when a conversation may see another, by `tools.sessions.visibility`.

    A conversation with other people than the owner only sees itself, because they read its replies.

    `self` means only itself; `tree` adds the sub-agents that it started, which `HostTool` looks up;
    `agent` adds the conversations of the same agent; `all` those of agents in `tools.agentToAgent`.
    """
    own_key = caller.key
    if own_key == target:
        return True
    visibility = config.tools.sessions.visibility
    if visibility in {"self", "tree"} or not caller.is_private:
        return False
    if own_key.agent == target.agent:
        return True
    between = config.tools.agent_to_agent
    return visibility == "all" and between.allows(own_key.agent) and between.allows(target.agent)


def visible_key(config: Config, caller: Caller, text: str) -> SessionKey:
    """Returns the key of the conversation that a model names.

    Raises:
        ToolError: the calling conversation may not see it; the same for a missing conversation.
    """
    key = SessionKey.parse(text, caller.key.agent)
    if not is_visible(config, caller, key):
        raise ToolError(
            f"{key} is not visible to this conversation (tools.sessions.visibility is"
            f" {config.tools.sessions.visibility}). Ask your owner."
        )
    return key


def reply(value: object, origin: Origin = Origin.TOOL) -> ToolResult:
    """Returns a result with a JSON object as text and as details."""
    details: dict[str, Any] = msgspec.to_builtins(value)
    return ToolResult(msgspec.json.encode(value).decode(), origin=origin, details=details)
