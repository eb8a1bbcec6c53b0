"""Key `oauth` of an account: a sign-in whose tokens take the place of a password (OAuth 2.0)."""

from typing import Annotated, Final, Literal

from msgspec import Struct
from pydantic import Field, HttpUrl, SecretStr, StringConstraints

from skerry.config.base import Section

Text = Annotated[str, StringConstraints(pattern=r"^[!-~]*$", max_length=512)]


QUESTIONS: Final = (
    ("provider", "Provider: google, microsoft or custom; empty where it is configured"),
    ("clientId", "Id of the application that you registered there; empty where it is configured"),
    ("clientSecret", "Secret of the application, where the provider gave one"),
)
"""Keys that a person enters before a sign-in, each with its question."""


class OAuthPreset(Struct, frozen=True):
    """Addresses that a provider documents; `{tenant}` is the directory of an organisation."""

    authorize_url: str
    token_url: str
    scopes: tuple[str, ...]


_MICROSOFT: Final = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0"
PRESETS: Final = {
    "google": OAuthPreset(
        # Without both words Google gives no refresh token, or none the second time.
        "https://accounts.google.com/o/oauth2/v2/auth?access_type=offline&prompt=consent",
        "https://oauth2.googleapis.com/token",
        ("https://mail.google.com/",),
    ),
    "microsoft": OAuthPreset(
        f"{_MICROSOFT}/authorize",
        f"{_MICROSOFT}/token",
        (
            "https://outlook.office.com/IMAP.AccessAsUser.All",
            "https://outlook.office.com/SMTP.Send",
            "offline_access",
        ),
    ),
}


class OAuthConfig(Section):
    """Sign-in at a provider; `skerry channels login` fetches the refresh token."""

    provider: Literal["google", "microsoft", "custom"] = "custom"
    """Provider whose addresses and scopes are known; `custom` takes those below."""
    client_id: Text = ""
    """Id of the application that you registered at the provider."""
    client_secret: SecretStr | None = None
    """Secret of the application, where the provider gives one."""
    refresh_token: SecretStr | None = None
    """Token by which access tokens are fetched; `skerry channels login` enters it."""
    tenant: Text = "common"
    """Directory of an organisation at Microsoft."""
    authorize_url: HttpUrl | None = None
    """Page on which a person agrees, of a provider that is not known."""
    token_url: HttpUrl | None = None
    """Address that gives tokens, of a provider that is not known."""
    scopes: tuple[Text, ...] = Field(default=(), max_length=16)
    """Permissions that are asked for, in place of those of the provider."""
    redirect_port: int = Field(default=0, ge=0, le=65535)
    """Local port to which the browser comes back; 0 lets the system choose."""

    @property
    def addresses(self) -> OAuthPreset:
        """Returns the addresses and scopes of the provider; empty ones where none are set."""
        preset = PRESETS.get(self.provider, OAuthPreset("", "", ()))
        return OAuthPreset(
            str(self.authorize_url or preset.authorize_url.replace("{tenant}", self.tenant)),
            str(self.token_url or preset.token_url.replace("{tenant}", self.tenant)),
            self.scopes or preset.scopes,
        )

    @property
    def is_usable(self) -> bool:
        """Returns whether access tokens can be fetched."""
        token = self.refresh_token
        return bool(self.addresses.token_url and token and token.get_secret_value())
