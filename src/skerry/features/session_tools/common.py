"""Parts shared by the tools about conversations: the offer, visibility, and the reply as JSON."""

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


_DEEPEST: Final = 5
"""Levels of sub-agents."""


class HostTool:
    """Common base: the parts of the gateway, and the offer where the configuration names it.

    The schemas of these tools are longer than what every first request may have, so a model gets
    them only by a profile, `allow` or `alsoAllow`.
    """

    verb: ClassVar[Verb]
    spec: ClassVar[ToolSpec]

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns whether the configuration chooses the tool for the agent."""
        return self._host.is_chosen(caller.key.agent, self.spec.name)

    async def _seen(self, caller: Caller, text: str) -> SessionKey:
        """Returns the conversation that a model names.

        Raises:
            ToolError: the conversation may not see it.
        """
        config, key = self._host.config(), SessionKey.parse(text, caller.key.agent)
        descends = partial(_descends, str(key), str(caller.key))
        sees_tree = config.tools.sessions.visibility != "self" and caller.is_private
        if sees_tree and await self._host.store.read(descends):
            return key
        return seen(config, caller, text)

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        return await self._host.call(method, params, READ_ONLY)


def _descends(key: str, ancestor: str, reader: Reader) -> bool:
    """Returns whether a conversation was started by another one, or by one that it started."""
    for _ in range(_DEEPEST):
        session = sessions.find(reader, key)
        parent = session.settings.spawned_by if session else None
        if parent is None or parent == ancestor:
            return parent is not None
        key = parent
    return False


def caller_of(context: ToolContext) -> Caller:
    """Returns the caller.

    Raises:
        ToolError: nobody asks.
    """
    if context.caller is None:
        raise ToolError("No conversation makes this call.")
    return context.caller


def is_visible(config: Config, caller: Caller, other: SessionKey) -> bool:
    """Returns whether a conversation may see another, by `tools.sessions.visibility`.

    One in which others than the owner take part sees itself alone: they would read the answer.

    `self` is the own one; `tree` also the sub-agents that it started, which `HostTool` looks up;
    `agent` those of the same agent; `all` those of every agent that `tools.agentToAgent` allows.
    """
    own = caller.key
    if own == other:
        return True
    visibility = config.tools.sessions.visibility
    if visibility in {"self", "tree"} or not caller.is_private:
        return False
    if own.agent == other.agent:
        return True
    between = config.tools.agent_to_agent
    return visibility == "all" and between.allows(own.agent) and between.allows(other.agent)


def seen(config: Config, caller: Caller, text: str) -> SessionKey:
    """Returns the conversation that a model names.

    Raises:
        ToolError: the conversation may not see it. It says the same of one that does not exist.
    """
    key = SessionKey.parse(text, caller.key.agent)
    if not is_visible(config, caller, key):
        raise ToolError(
            f"{key} is not visible to this conversation (tools.sessions.visibility is"
            f" {config.tools.sessions.visibility}). Ask your owner."
        )
    return key


def reply(value: object, origin: Origin = Origin.TOOL) -> ToolResult:
    """Returns a JSON object as the text and the details of a result."""
    details: dict[str, Any] = msgspec.to_builtins(value)
    return ToolResult(msgspec.json.encode(value).decode(), origin=origin, details=details)
