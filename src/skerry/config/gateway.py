"""Section `gateway`: where it listens and who may connect."""

from enum import StrEnum

from pydantic import Field, SecretStr, field_validator

from skerry.config.base import Section

DEFAULT_PORT = 18789
LOCK = "gateway.lock"
"""File of the state directory that a running gateway holds; it has its process id and port."""


class Bind(StrEnum):
    """Which addresses the gateway listens on."""

    LOOPBACK = "loopback"


class AuthMode(StrEnum):
    """How a client proves itself."""

    TOKEN = "token"  # noqa: S105 - the name of a mode
    NONE = "none"


class AuthConfig(Section):
    """Who may connect."""

    mode: AuthMode = AuthMode.TOKEN
    """`token`, or `none`: every program and web page on this machine may then steer the agents."""
    token: SecretStr | None = None
    """The shared token. Without one the first start writes 48 hex characters."""

    @field_validator("token")
    @classmethod
    def _something(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse what a client could meet by sending nothing, or by a stray space."""
        text = None if value is None else value.get_secret_value()
        if text is not None and (not text or text != text.strip()):
            message = "must not be empty, nor begin or end with a space"
            raise ValueError(message)
        return value


class GatewayConfig(Section):
    """Where the gateway listens and who may connect."""

    mode: str = Field(default="local", pattern="^local$")
    """Only `local`: this machine runs the gateway."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """TCP port; 0 lets the system choose."""
    bind: Bind = Bind.LOOPBACK
    """`loopback`: 127.0.0.1 only."""
    auth: AuthConfig = AuthConfig()
    tick_interval_ms: int = Field(default=30_000, ge=100, le=600_000)
    """Milliseconds between two `tick` events, by which clients notice a dead gateway."""
    drain_seconds: float = Field(default=30.0, ge=0, le=600)
    """How long a stop waits for runs; one that did not end is taken up by the next start."""
