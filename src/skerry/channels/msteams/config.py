"""Section `channels.msteams`: bots of Azure."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, HttpUrl, SecretStr, StringConstraints

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]*$", max_length=128)]


class MsTeamsAccount(ChannelAccount):
    """Settings of one bot."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "app_id", "app_password", "tenant_id")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("appId", "Application (client) ID of the bot"),
        ("appPassword", "Value of a client secret of the bot"),
    )

    app_id: Name = ""
    """Application (client) ID of the bot."""
    app_password: SecretStr | None = None
    """Value of a client secret of the bot."""
    tenant_id: Name = ""
    """Directory (tenant) ID of the bot; empty for one of several tenants."""
    metadata_url: Root = HttpUrl(
        "https://login.botframework.com/v1/.well-known/openidconfiguration"
    )
    """OpenID metadata of the issuer of the tokens that arrive."""
    login_root: Root = HttpUrl("https://login.microsoftonline.com")
    """Server that gives the bot its own tokens."""
    service_roots: tuple[Root, ...] = Field(default=(), max_length=8)
    """Further addresses to which answers may be sent, beside those of Microsoft."""
    media_max_mb: int = Field(default=10, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none."""

    @property
    def is_configured(self) -> bool:
        """Returns whether there are an id and a secret."""
        return bool(self.app_id and revealed(self.app_password))


class MsTeamsConfig(MsTeamsAccount, ChannelConfig):
    """Bots in MS Teams."""

    accounts: Mapping[AccountName, MsTeamsAccount] = Field(default_factory=dict, max_length=64)
    """Further bots by name."""
