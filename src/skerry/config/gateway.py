"""Section `gateway`: where it listens, who may connect, and which proxies and pages it believes."""

from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from skerry.config.base import Section
from skerry.config.reload import ReloadConfig

DEFAULT_PORT = 18789
LOCK = "gateway.lock"
"""File of the state directory that a running gateway holds; it has its process id and port."""

LOOPBACK: Final = "loopback"
LAN: Final = "lan"
_LOCAL: Final = "127.0.0.1"
_ALL: Final = {"0.0.0.0": ("0.0.0.0",), "::": ("0.0.0.0", "::")}  # noqa: S104 - only when asked for


class AuthMode(StrEnum):
    """Means by which a client authenticates."""

    TOKEN = "token"  # noqa: S105 - the name of a mode
    PASSWORD = "password"  # noqa: S105 - the name of a mode
    NONE = "none"


class AuthConfig(Section):
    """Authentication of clients."""

    mode: AuthMode = AuthMode.TOKEN
    """`token`, `password`, or `none`: every program on this machine may then steer the agents."""
    token: SecretStr | None = None
    """The shared token. Without one the first start writes 48 hex characters."""
    password: SecretStr | None = None
    """The shared password, for mode `password`."""

    @field_validator("token", "password")
    @classmethod
    def _not_empty(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuses what a client could meet by sending nothing, or by a stray space."""
        text = None if value is None else value.get_secret_value()
        if text is not None and (not text or text != text.strip()):
            message = "must not be empty, nor begin or end with a space"
            raise ValueError(message)
        return value

    @property
    def secret(self) -> str | None:
        """Returns the secret that this mode requires; None when it is unset or none is required."""
        credential = {AuthMode.TOKEN: self.token, AuthMode.PASSWORD: self.password}.get(self.mode)
        return None if credential is None else credential.get_secret_value()


def _bind(text: str) -> str:
    if text in {LOOPBACK, LAN}:
        return text
    try:
        return str(ip_address(text))
    except ValueError:
        message = "must be 'loopback', 'lan' or an IP address of this machine"
        raise ValueError(message) from None


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        message = "must be an address or a network such as 10.0.0.0/8"
        raise ValueError(message) from None


def _origin(text: str) -> str:
    """Returns the origin as browsers write it. There is no `*`: it would let every page in."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        message = "must be one site such as https://skerry.example.org"
        raise ValueError(message)
    return f"{parts.scheme}://{parts.netloc}".lower()


class ControlUiConfig(Section):
    """Origins of pages that may connect besides the gateway's own page on this machine."""

    allowed_origins: list[Annotated[str, AfterValidator(_origin)]] = Field(
        default_factory=list[str], max_length=64
    )
    """Sites (`https://skerry.example.org`) whose pages and whose name are ours: behind a proxy."""
    dangerously_disable_device_auth: bool = False
    """Let clients on other machines in with the token alone, without a paired device."""


class ControlConfig(Section):
    """Limits on the changes that clients with the admin scope may make."""

    allow_code_changes: bool = Field(default=False, strict=True)
    """Lets `config.*` calls also change the keys that decide which code is loaded, which commands
    run, which files are read and who may connect. Only a person who edits the file can set this
    key."""


class GatewayConfig(Section):
    """Listening address, authentication and trusted proxies of the gateway."""

    mode: str = Field(default="local", pattern="^local$")
    """Mode of the gateway; only `local`: this machine runs it."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """TCP port; 0 lets the system choose."""
    bind: Annotated[str, AfterValidator(_bind)] = LOOPBACK
    """`loopback`, `lan` (every address of this machine), or one address beside 127.0.0.1."""
    auth: AuthConfig = AuthConfig.model_construct()
    trusted_proxies: list[Annotated[str, AfterValidator(_network)]] = Field(
        default_factory=list[str], max_length=64
    )
    """Addresses and networks whose `X-Forwarded-For` is believed."""
    control_ui: ControlUiConfig = ControlUiConfig.model_construct()
    control: ControlConfig = ControlConfig.model_construct()
    reload: ReloadConfig = ReloadConfig.model_construct()
    tick_interval_ms: int = Field(default=30_000, ge=100, le=600_000)
    """Milliseconds between two `tick` events, by which clients notice a dead gateway."""
    drain_seconds: float = Field(default=30.0, ge=0, le=600)
    """Seconds for which a stop waits for runs; the next start resumes a run that did not end."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Returns the addresses to listen on; this machine itself always reaches one of them."""
        match self.bind:
            case "loopback" | "127.0.0.1":
                return (_LOCAL,)
            case "lan":
                return _ALL["0.0.0.0"]  # noqa: S104 - asked for
            case address:
                return _ALL.get(address, (_LOCAL, address))

    @property
    def exposed(self) -> bool:
        """Returns whether other machines can reach it."""
        return not all(ip_address(address).is_loopback for address in self.addresses)

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        """Refuses to listen to other machines without asking who they are."""
        if self.exposed and self.auth.mode is AuthMode.NONE:
            message = "bind lets other machines in, so auth.mode must be 'token' or 'password'"
            raise ValueError(message)
        return self
