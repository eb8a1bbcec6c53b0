"""Session to which a request refers."""

from skerry.gateway.frames import ErrorCode
from skerry.gateway.method import Call, RefusedError
from skerry.model.ids import SessionKey, agent_id


def session_key(call: Call, text: str | None, agent: str | None) -> SessionKey:
    """Return the key that a request names by key, by agent, or by neither: then the main one.

    Raises:
        InvalidSessionKeyError: the key does not parse.
        RefusedError: the key belongs to another agent than the one that is named too.
    """
    owner = agent_id(agent) if agent else call.context.config().agents.default_id
    key = SessionKey.parse(text or "", owner)
    if agent and key.agent != owner:
        message = f"sessionKey belongs to agent {key.agent!r}, not to {owner!r}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    return key
