"""Section `channels.discord`: bots."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, HttpUrl, SecretStr

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed


class DiscordAccount(ChannelAccount):
    """Settings of one bot."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "token")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("token", "Token of the bot, from its page Bot in the developer portal"),
    )

    token: SecretStr | None = None
    """Token of the bot."""
    api_root: Root = HttpUrl("https://discord.com/api/v10")
    """Address of the HTTP API, with its version."""
    media_max_mb: int = Field(default=10, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none."""
    mentions: Literal["none", "users"] = "none"
    """Mentions as `<@id>` in an answer that notify people: `none`, or those of `users`. An answer
    never notifies a role or everybody."""

    @property
    def is_configured(self) -> bool:
        """Returns whether there is a token."""
        return bool(revealed(self.token))


class DiscordConfig(DiscordAccount, ChannelConfig):
    """Discord bots."""

    accounts: Mapping[AccountName, DiscordAccount] = Field(default_factory=dict, max_length=64)
    """Further bots by name."""
