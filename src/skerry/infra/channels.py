"""Lists the chat platforms of this program; their code is in `skerry.channels.<name>`.

A gateway imports a platform when the configuration has an account of it. Module `config` has the
class of the section `channels.<name>`, module `adapter` has `open_account(settings, host)`.
"""

from importlib import import_module
from typing import Any


class Platform:
    """One chat platform, described without importing its modules."""

    __slots__ = ("config", "label", "name")

    def __init__(self, name: str, label: str, config: str) -> None:
        self.name = name
        self.label = label
        """Name for people."""
        self.config = config
        """Class in module `config` of the section `channels.<name>`."""

    def load(self, path: str) -> Any:
        """Imports `module:attribute`, relative to the platform's package, and returns it."""
        module, _, attribute = path.partition(":")
        return getattr(import_module(f"skerry.channels.{self.name}.{module}"), attribute)

    @property
    def section(self) -> Any:
        """Imports and returns the class of the section `channels.<name>`."""
        return self.load(f"config:{self.config}")


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform("discord", "Discord", "DiscordConfig"),
        Platform("email", "E-mail", "EmailConfig"),
        Platform("googlechat", "Google Chat", "GoogleChatConfig"),
        Platform("imessage", "iMessage", "IMessageConfig"),
        Platform("matrix", "Matrix", "MatrixConfig"),
        Platform("msteams", "MS Teams", "MsTeamsConfig"),
        Platform("signal", "Signal", "SignalConfig"),
        Platform("slack", "Slack", "SlackConfig"),
        Platform("telegram", "Telegram", "TelegramConfig"),
        Platform("whatsapp", "WhatsApp", "WhatsAppConfig"),
    )
}
