"""Bodies of posts: of `/hooks/wake`, `/hooks/agent` and mappings (pure)."""

from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from skerry.config.root import Config
from skerry.features.webhooks.posts import Order
from skerry.infra.untrusted_json import DEEPEST, UNREADABLE, is_deep
from skerry.model.ids import SessionKey, SessionKind, agent_id
from skerry.model.thinking import ThinkingLevel


class BodyError(ValueError):
    """A body cannot be used; the message names the part and the remedy."""


class _Body(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class WakeBody(_Body):
    """Body of `/hooks/wake`."""

    text: str = Field(min_length=1, max_length=50_000)
    mode: Literal["now"] = "now"
    """Other modes are refused, because a wake must not wait for a heartbeat."""


class AgentBody(_Body):
    """Body of `/hooks/agent`."""

    message: str = Field(min_length=1, max_length=50_000)
    name: str = Field(default="agent", max_length=64)
    agent_id: str | None = Field(default=None, max_length=64)
    session_key: str | None = Field(default=None, max_length=512)
    model: str | None = Field(default=None, max_length=256)
    thinking: ThinkingLevel | None = None
    timeout_seconds: float | None = Field(default=None, ge=0, le=86_400)


def agent_order(config: Config, body: WakeBody | AgentBody) -> Order:
    """Returns the settings of the run that a body requests.

    Raises:
        BodyError: the body names an agent or a session that posts may not use.
    """
    default = config.agents.default_id
    if isinstance(body, WakeBody):
        return Order(default, is_wake=True, text=body.text)
    if body.agent_id and not config.hooks.admits_agent(body.agent_id, default):
        raise BodyError(f"agentId {body.agent_id!r} is not in hooks.allowedAgentIds")
    agent = agent_id(body.agent_id) if body.agent_id else default
    if agent not in config.agents.ids:
        raise BodyError(
            f"agentId {body.agent_id!r} is unknown; agents: {', '.join(config.agents.ids)}"
        )
    return Order(
        agent,
        text=body.message,
        session_key=_session_key(config, body.session_key),
        model=body.model,
        thinking=body.thinking,
        timeout=body.timeout_seconds,
    )


def _session_key(config: Config, session_key: str | None) -> str:
    """Returns the session key that a post names.

    Raises:
        BodyError: posts may not name this session.
    """
    if not session_key:
        return ""
    if not config.hooks.allow_request_session_key:
        raise BodyError("a post may name its session only with hooks.allowRequestSessionKey")
    scope = ":".join(SessionKey.parse(session_key).scope)
    prefixes = config.hooks.allowed_session_key_prefixes
    if session_key.startswith("agent:") or not any(scope.startswith(prefix) for prefix in prefixes):
        raise BodyError(f"sessionKey must begin with one of {', '.join(prefixes)}")
    if SessionKey.parse(session_key).kind is not SessionKind.HOOK:
        raise BodyError("sessionKey must name a session of webhooks: hook:NAME")
    return scope


def payload_of(body: bytes) -> Any:
    """Returns the JSON of a body, or its text.

    Raises:
        BodyError: the body is JSON with too many levels, or is not UTF-8.
    """
    try:
        value = msgspec.json.decode(body) if body.strip() else {}
    except UNREADABLE:
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BodyError("the body is neither JSON nor UTF-8 text") from error
    if is_deep(value):
        raise BodyError(f"the body has more than {DEEPEST} levels")
    return value
