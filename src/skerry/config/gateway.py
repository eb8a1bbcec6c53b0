"""Section `gateway`: listening address, authentication, trusted proxies and origins."""

from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from skerry.config.base import Section, with_sections
from skerry.config.reload import ReloadConfig

DEFAULT_PORT = 18789
LOCK = "gateway.lock"
"""File in the state directory that a running gateway locks; it contains process id and port."""

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
    """`token`, `password`, or `none`: then every program on this machine controls the agents."""
    token: SecretStr | None = None
    """The shared token. When unset, the first start writes one of 48 hexadecimal characters."""
    password: SecretStr | None = None
    """The shared password, for mode `password`."""

    @field_validator("token", "password")
    @classmethod
    def _not_empty(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuses an empty secret, and white space that a client would have to repeat."""
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
    """Returns the origin as browsers send it. `*` is refused: it would admit every page."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        message = "must be one site such as https://skerry.example.org"
        raise ValueError(message)
    return f"{parts.scheme}://{parts.netloc}".lower()


class ControlUiConfig(Section):
    """Pages that may connect in addition to the gateway's page on this machine."""

    allowed_origins: list[Annotated[str, AfterValidator(_origin)]] = Field(
        default_factory=list[str], max_length=64
    )
    """Origins (`https://skerry.example.org`) under which a proxy serves the page of the gateway."""
    dangerously_disable_device_auth: bool = False
    """Admits clients on other machines with the token only, without a paired device."""


class ControlConfig(Section):
    """Limits on the changes that clients with the admin scope may make."""

    allow_code_changes: bool = Field(default=False, strict=True)
    """Lets `config.*` calls also change the keys that decide which code is loaded, which commands
    run, which files are read and who may connect. Only a person who edits the file can set this
    key."""


@with_sections("gateway")
class GatewayConfig(Section):
    """Listening address, authentication and trusted proxies of the gateway."""

    mode: str = Field(default="local", pattern="^local$")
    """Mode of the gateway; the only value is `local`: it runs on this machine."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """TCP port; 0 lets the system choose."""
    bind: Annotated[str, AfterValidator(_bind)] = LOOPBACK
    """Addresses to listen on: `loopback`, `lan` (every address of this machine), or one IP address
    in addition to 127.0.0.1."""
    auth: AuthConfig = AuthConfig.model_construct()
    trusted_proxies: list[Annotated[str, AfterValidator(_network)]] = Field(
        default_factory=list[str], max_length=64
    )
    """Addresses and networks of proxies whose `X-Forwarded-For` is trusted."""
    control_ui: ControlUiConfig = ControlUiConfig.model_construct()
    control: ControlConfig = ControlConfig.model_construct()
    reload: ReloadConfig = ReloadConfig.model_construct()
    tick_interval_ms: int = Field(default=30_000, ge=100, le=600_000)
    """Milliseconds between two `tick` events; clients detect a dead gateway by missing ticks."""
    drain_seconds: float = Field(default=30.0, ge=0, le=600)
    """Seconds for which a stop waits for active runs; the next start resumes a run that did not
    end."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Returns the addresses to listen on; this machine can always connect to one of them."""
        match self.bind:
            case "loopback" | "127.0.0.1":
                return (_LOCAL,)
            case "lan":
                return _ALL["0.0.0.0"]  # noqa: S104 - asked for
            case address:
                return _ALL.get(address, (_LOCAL, address))

    @property
    def exposed(self) -> bool:
        """Returns whether other machines can connect."""
        return not all(ip_address(address).is_loopback for address in self.addresses)

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        """Refuses to listen to other machines without authentication."""
        if self.exposed and self.auth.mode is AuthMode.NONE:
            message = "bind admits other machines, so auth.mode must be 'token' or 'password'"
            raise ValueError(message)
        return self
