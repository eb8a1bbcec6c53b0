"""Section `channels.matrix`: accounts at homeservers."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, HttpUrl, SecretStr

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed


class MatrixAccount(ChannelAccount):
    """Settings of one account."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "access_token")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("accessToken", "Access token of a session of the account"),
    )

    homeserver: Root = HttpUrl("https://matrix.org")
    """Address of the homeserver's client API."""
    access_token: SecretStr | None = None
    """Token of a session of the account, which the gateway alone uses."""
    auto_join: Literal["direct", "always", "off"] = "direct"
    """Invitations that are accepted: to direct chats, to every room, or none."""
    poll_seconds: int = Field(default=20, ge=0, le=25)
    """Seconds for which one request waits for messages."""
    media_max_mb: int = Field(default=10, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none."""

    @property
    def is_configured(self) -> bool:
        """Returns whether there is a token."""
        return bool(revealed(self.access_token))


class MatrixConfig(MatrixAccount, ChannelConfig):
    """Accounts on Matrix."""

    accounts: Mapping[AccountName, MatrixAccount] = Field(default_factory=dict, max_length=64)
    """Further accounts by name."""
