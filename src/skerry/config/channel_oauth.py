"""Key `oauth` of an account: a sign-in whose tokens replace a password (OAuth 2.0)."""

from typing import Annotated, Final, Literal

from msgspec import Struct
from pydantic import Field, HttpUrl, SecretStr, StringConstraints

from skerry.config.base import Section

Text = Annotated[str, StringConstraints(pattern=r"^[!-~]*$", max_length=512)]


QUESTIONS: Final = (
    ("provider", "Provider: google, microsoft or custom; empty if it is configured"),
    ("clientId", "Id of the application that you registered; empty if it is configured"),
    ("clientSecret", "Secret of the application, if the provider gave one"),
)
"""Keys that a person enters before a sign-in, each with its prompt."""


class OAuthPreset(Struct, frozen=True):
    """Documented addresses of a provider; `{tenant}` is the directory of an organisation."""

    authorize_url: str
    token_url: str
    scopes: tuple[str, ...]


_MICROSOFT: Final = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0"
PRESETS: Final = {
    "google": OAuthPreset(
        # Without both parameters Google returns no refresh token, or none at a second sign-in.
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
    """Sign-in with a provider; `skerry channels login` fetches the refresh token."""

    provider: Literal["google", "microsoft", "custom"] = "custom"
    """Provider with built-in addresses and scopes; `custom` uses the keys below."""
    client_id: Text = ""
    """Id of the application that you registered with the provider."""
    client_secret: SecretStr | None = None
    """Secret of the application, if the provider gives one."""
    refresh_token: SecretStr | None = None
    """Token that fetches access tokens; `skerry channels login` writes it."""
    tenant: Text = "common"
    """Directory of your organisation at Microsoft."""
    authorize_url: HttpUrl | None = None
    """Address of the consent page, for provider `custom`."""
    token_url: HttpUrl | None = None
    """Address that returns tokens, for provider `custom`."""
    scopes: tuple[Text, ...] = Field(default=(), max_length=16)
    """Scopes that are requested instead of the provider's."""
    redirect_port: int = Field(default=0, ge=0, le=65535)
    """Port on this machine to which the browser is redirected; 0 lets the system choose."""

    @property
    def addresses(self) -> OAuthPreset:
        """Returns the addresses and scopes in use; those that are not set are empty."""
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
