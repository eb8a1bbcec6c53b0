"""Section `channels.telegram`: bots and how they receive."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, HttpUrl, SecretStr

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed


class TelegramAccount(ChannelAccount):
    """Settings of one bot."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "bot_token")

    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("botToken", "Token of the bot, as @BotFather gave it"),
    )

    bot_token: SecretStr | None = None
    """Token that @BotFather gave."""
    api_root: Root = HttpUrl("https://api.telegram.org")
    """Address of the Bot API, such as that of a Bot API server of your own."""
    poll_seconds: int = Field(default=20, ge=0, le=25)
    """Seconds for which one request waits for messages."""
    media_max_mb: int = Field(default=20, ge=0, le=50)
    """Largest file that is accepted, in MB; 0 accepts none. The public Bot API gives 20 at most."""

    @property
    def is_configured(self) -> bool:
        """Returns whether there is a token."""
        return bool(revealed(self.bot_token))


class TelegramConfig(TelegramAccount, ChannelConfig):
    """Telegram bots."""

    accounts: Mapping[AccountName, TelegramAccount] = Field(default_factory=dict, max_length=64)
    """Further bots by name."""
