"""IRC: one account on one network, in private messages and in the channels that it joins."""

from pydantic import BaseModel, Field, SecretStr

from skerry.sdk.api import PluginApi

from .channel import IrcChannel
from .waiting import STEPS, Waiting


class Settings(BaseModel, extra="forbid"):
    """Settings in `plugins.entries.irc.config`."""

    server: str = Field(pattern=r"^(tcp|tls)://")
    """Address of the server: `tls://host:6697`, or `tcp://host:6667` without encryption."""
    nick: str = Field(
        default="skerry", pattern=r"^[A-Za-z\[\]\\`_^{|}][A-Za-z0-9\[\]\\`_^{|}-]{0,15}$"
    )
    password: SecretStr | None = None
    """Password of the server, which some networks take for the account too."""
    channels: list[str] = Field(default=[], max_length=50)
    """Channels to join, such as `#harbour`."""


def register(api: PluginApi) -> None:
    """Connects the account that the configuration names."""
    settings = api.settings(Settings)
    waiting = Waiting(api.database(STEPS))
    password = settings.password.get_secret_value() if settings.password else ""

    api.register_channel(
        IrcChannel(
            lambda: api.sockets.open(settings.server),
            api.clock,
            waiting,
            nick=settings.nick,
            password=password,
            rooms=tuple(settings.channels),
        )
    )
