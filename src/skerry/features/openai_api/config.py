"""Sections `gateway.http` and `gateway.tools`: HTTP endpoints for other programs."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr

from skerry.config.base import Section
from skerry.config.session import SPAN, duration
from skerry.infra.clock import DAY_MS

Bytes = Annotated[int, Field(ge=1_024, le=33_554_432)]
_BODY_BYTES = 20_971_520


class EndpointConfig(Section):
    """One endpoint."""

    enabled: bool = False
    """Answers requests that have a token."""
    max_body_bytes: Bytes = _BODY_BYTES
    """Maximum bytes of a request, with its images."""


class EndpointsConfig(Section):
    """Endpoints for other programs; all are off by default."""

    chat_completions: EndpointConfig = EndpointConfig.model_construct()
    """`POST /v1/chat/completions`, and the list of agents at `GET /v1/models`."""
    responses: EndpointConfig = EndpointConfig.model_construct()
    """`POST /v1/responses`, and the list of agents at `GET /v1/models`."""
    tools_invoke: EndpointConfig = EndpointConfig.model_construct()
    """`POST /tools/invoke`, which calls one tool of an agent."""


ToolName = Annotated[str, Field(min_length=1, max_length=128)]


class HttpToolsConfig(Section):
    """Tools at `POST /tools/invoke`, in addition to the rules of the agent."""

    allow: tuple[ToolName, ...] = Field(default=(), max_length=100)
    """Tools that are permitted although they are refused by default, such as `exec`."""
    deny: tuple[ToolName, ...] = Field(default=(), max_length=100)
    """Further tools that are refused."""


class HttpConfig(Section):
    """HTTP endpoints for other programs."""

    endpoints: EndpointsConfig = EndpointsConfig.model_construct()
    token: SecretStr | None = Field(default=None, min_length=1)
    """Token of these endpoints, another one than the gateway's. Programs on other machines need
    it; those on this machine may have either."""
    max_open_requests: int = Field(default=32, ge=1, le=1_000)
    """Requests that are answered at the same time; a further one is refused with 429."""
    session_retention: Annotated[int, BeforeValidator(duration), SPAN] = Field(
        default=DAY_MS, ge=60_000
    )
    """Time for which the conversation of a request that names none is kept, such as `24h`."""

    @property
    def is_open(self) -> bool:
        """Returns whether an endpoint below `/v1/` is enabled."""
        return self.endpoints.chat_completions.enabled or self.endpoints.responses.enabled
