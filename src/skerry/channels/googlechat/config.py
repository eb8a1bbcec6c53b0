"""Section `channels.googlechat`: Chat apps of Google Cloud projects."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, HttpUrl, StringConstraints

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root

Audience = Annotated[
    str, StringConstraints(pattern=r"^$|^[0-9]{4,20}$|^https://[^\s]{4,400}$", max_length=512)
]


class GoogleChatAccount(ChannelAccount):
    """Settings of one Chat app."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "service_account_file", "audience")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("serviceAccountFile", "Path of the key file (JSON) of the app's service account"),
        ("audience", "Number of the project, or the HTTP endpoint URL of the app"),
    )

    service_account_file: str = Field(default="", max_length=1024)
    """Path of the key file (JSON) of the service account as which the app sends."""
    audience: Audience = ""
    """Audience of the tokens that arrive, as *Authentication audience* of the app says: the number
    of the project, or the address of the endpoint as it is entered there."""
    api_root: Root = HttpUrl("https://chat.googleapis.com")
    """Address of the Chat API."""
    token_url: Root = HttpUrl("https://oauth2.googleapis.com/token")
    """Address that gives access tokens."""
    keys_root: Root = HttpUrl("https://www.googleapis.com")
    """Server that publishes the keys of the tokens that arrive."""
    media_max_mb: int = Field(default=10, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none."""

    @property
    def is_configured(self) -> bool:
        """Returns whether there are a key file and an audience."""
        return bool(self.service_account_file and self.audience)


class GoogleChatConfig(GoogleChatAccount, ChannelConfig):
    """Apps in Google Chat."""

    accounts: Mapping[AccountName, GoogleChatAccount] = Field(default_factory=dict, max_length=64)
    """Further apps by name."""
