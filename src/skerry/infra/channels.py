"""Lists the chat platforms of this program, one line each; `skerry.channels.<name>` has the rest.

A gateway imports a platform when the configuration has an account of it. `config` has the section
`channels.<name>`, `adapter` has `open_account(settings, host)`.
"""

from importlib import import_module
from typing import Any


class Platform:
    """One chat platform: what must be known of it before any of its modules is imported."""

    __slots__ = ("config", "label", "name")

    def __init__(self, name: str, label: str, config: str) -> None:
        self.name = name
        self.label = label
        """Name for people."""
        self.config = config
        """The class in `config` of the section `channels.<name>`."""

    def load(self, path: str) -> Any:
        """Returns `module:attribute` of the platform, which is imported by this."""
        module, _, attribute = path.partition(":")
        return getattr(import_module(f"skerry.channels.{self.name}.{module}"), attribute)

    @property
    def section(self) -> Any:
        """Returns the class of its section of the configuration; imports it."""
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
