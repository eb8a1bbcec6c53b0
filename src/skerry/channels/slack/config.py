"""Section `channels.slack`: apps of workspaces."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, HttpUrl, SecretStr

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed


class SlackAccount(ChannelAccount):
    """Settings of one app in one workspace."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "bot_token", "app_token", "signing_secret")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("botToken", "Bot User OAuth Token, which begins with xoxb-"),
        ("appToken", "App-Level Token with connections:write, which begins with xapp-"),
    )

    mode: Literal["socket", "http"] = "socket"
    """`socket` receives by Socket Mode; `http` by requests that Slack sends to
    `/channels/slack/<account>` of the gateway, which must be reachable from the internet."""
    bot_token: SecretStr | None = None
    """Bot User OAuth Token, `xoxb-...`."""
    app_token: SecretStr | None = None
    """App-Level Token with the scope `connections:write`, `xapp-...`."""
    signing_secret: SecretStr | None = None
    """Secret by which the requests of Slack are signed; for the mode `http`."""
    api_root: Root = HttpUrl("https://slack.com/api")
    """Address of the Web API."""
    media_max_mb: int = Field(default=20, ge=0, le=50)
    """Largest file that is accepted, in MB; 0 accepts none."""

    @property
    def is_configured(self) -> bool:
        """Returns whether there is the token of the bot, and the secret that the mode needs."""
        second_secret = self.signing_secret if self.mode == "http" else self.app_token
        return bool(revealed(self.bot_token) and revealed(second_secret))


class SlackConfig(SlackAccount, ChannelConfig):
    """Slack apps."""

    accounts: Mapping[AccountName, SlackAccount] = Field(default_factory=dict, max_length=64)
    """Further apps by name."""
