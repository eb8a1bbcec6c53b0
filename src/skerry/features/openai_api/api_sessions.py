"""Conversation of a request: named by a header or the field `user`, else of this request (pure)."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final
from uuid import UUID

from skerry.config.root import Config
from skerry.features.openai_api.api_errors import ApiError
from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import AgentId, RunId, SessionKey

ONE_OFF: Final = "openai"
"""First part of the key of a conversation that has one request."""
OF_USER: Final = "openai-user"
"""First part of the key of the conversation of a `user`."""
KEY_HEADERS: Final = ("x-skerry-session-key", "x-openclaw-session-key")
AGENT_HEADERS: Final = ("x-skerry-agent-id", "x-openclaw-agent-id")
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_KINDS: Final = frozenset({"dm", "direct", "group", "channel"})
"""Words that would make the key one of a chat platform."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ONE_OFF_PARTS: Final = 2


def header(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Returns the first of the headers that is not empty."""
    return next((text for name in names if (text := headers.get(name, "").strip())), "")


def session_of(
    config: Config, named: str, agent: AgentId | None, user: str | None, run_id: RunId
) -> SessionKey:
    """Returns the conversation of a request.

    Args:
        config: The configuration.
        named: Session key in a header, or empty.
        agent: The requested agent; None for the default agent, or the one of the session key.
        user: The field `user` of the request.
        run_id: Id of the run; a repeated request has the same.

    Raises:
        ApiError: 400, the session key is invalid or belongs to another agent.

    """
    if named:
        try:
            return config.session_key(named, agent)
        except InvalidSessionKeyError as error:
            raise ApiError(400, str(error), param=KEY_HEADERS[0], code=error.code) from None
    owner = agent or config.agents.default_id
    if user:
        return SessionKey(owner, (OF_USER, _part(user)))
    digest = sha256(run_id.encode()).digest()[:16]
    return SessionKey(owner, (ONE_OFF, str(UUID(bytes=digest, version=4))))


def is_one_off(key: str) -> bool:
    """Returns whether the key is that of a conversation with one request."""
    scope = SessionKey.parse(key).scope
    if len(scope) != _ONE_OFF_PARTS or scope[0] != ONE_OFF:
        return False
    return _UUID.fullmatch(scope[1]) is not None


def _part(user: str) -> str:
    """Returns a part of a session key that is different for each user.

    A key has no capital letters, and its parts are separated by colons.
    """
    if _PLAIN.fullmatch(user) and user not in _KINDS:
        return user
    return f"sha256-{sha256(user.encode(errors='surrogatepass')).hexdigest()[:40]}"
