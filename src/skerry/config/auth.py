"""Section `auth`: the order in which credentials are used, and addresses for signing in."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import OpenSection, Section

PASSPHRASE: Final = "SKERRY_VAULT_PASSPHRASE"  # noqa: S105 - the name of a variable


def _safe(value: HttpUrl) -> HttpUrl:
    if value.scheme != "https" and value.host not in {"127.0.0.1", "localhost", "[::1]"}:
        message = "must be an https address, or on this machine, because tokens are sent to it"
        raise ValueError(message)
    return value


Address = Annotated[HttpUrl, AfterValidator(_safe)]


class SignInConfig(Section):
    """An OAuth 2 service at which `skerry auth login` signs in (RFC 6749, with PKCE: RFC 7636)."""

    authorize_url: Address
    """Address that the browser opens."""
    token_url: Address
    """Address at which the code and the refresh token are exchanged for tokens."""
    client_id: str = Field(min_length=1, max_length=512)
    """Client id of the application that you registered with the service."""
    client_secret: SecretStr | None = None
    """Client secret, for services that issue one to native applications."""
    scopes: tuple[str, ...] = Field(default=(), max_length=100)
    """Scopes that are requested."""
    redirect_port: int = Field(default=0, ge=0, le=65_535)
    """Port on this machine to which the browser is redirected; 0 lets the system choose."""


class CredentialsConfig(OpenSection):
    """Use of credentials of model providers; the secrets are stored outside this file."""

    order: dict[str, tuple[str, ...]] = Field(default_factory=dict, max_length=200)
    """Profiles of a provider in the order of use, by provider; when unset, they are used in
    turn."""
    providers: dict[str, SignInConfig] = Field(default_factory=dict, max_length=200)
    """Service at which to sign in, by provider."""
