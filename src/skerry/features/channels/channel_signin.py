"""Sign-in of an account in the browser; the configuration stores the refresh token."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import ValidationError

from skerry.auth.signin import SignInService, obtained
from skerry.config.channel_oauth import OAuthConfig
from skerry.infra.channels import Platform
from skerry.infra.clock import Clock
from skerry.model.errors import CredentialError


async def signed_in(
    platform: Platform,
    settings: Any,
    fields: Mapping[str, str],
    clock: Clock,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str]],
) -> dict[str, Any]:
    """Signs a person in; returns the keys of the account to set, including `fields`.

    `show` receives the address to open; `pasted` returns the final address of the browser.

    Raises:
        CredentialError: the platform has no sign-in, or a required setting is missing.
        CredentialError: the sign-in was refused, or was not completed in time.
    """
    if "oauth" not in platform.section.login_elsewhere:
        raise CredentialError(
            f"{platform.label} has no sign-in in the browser.",
            f"Enter its credentials: skerry channels login {platform.name}",
        )
    entered: dict[str, Any] = {
        key.partition(".")[2]: text for key, text in fields.items() if key.startswith("oauth.")
    }
    if "scopes" in entered:
        entered["scopes"] = entered["scopes"].split()
    oauth = _settings(settings, entered)
    addresses = oauth.addresses
    if not (oauth.client_id and addresses.authorize_url and addresses.token_url):
        raise CredentialError(
            "The sign-in needs the id of an application that you registered at the provider,"
            " and for `custom` its addresses.",
            "Enter them on the page or in the file, or in a terminal: --set oauth.clientId=ID"
            " [--set oauth.clientSecret=SECRET]"
            " [--set oauth.authorizeUrl=URL --set oauth.tokenUrl=URL]",
        )
    secret = oauth.client_secret
    service = SignInService(
        addresses.authorize_url,
        addresses.token_url,
        oauth.client_id,
        secret.get_secret_value() if secret else "",
        addresses.scopes,
        oauth.redirect_port,
    )
    tokens = await obtained(service, clock, show, pasted)
    if not tokens.refresh:
        raise CredentialError(
            "The provider returned no refresh token; without it the account stops soon.",
            "Request it by a scope, such as `offline_access` at Microsoft: --set oauth.scopes=...",
        )
    return {f"oauth.{key}": text for key, text in entered.items()} | {
        "oauth.refreshToken": tokens.refresh
    }


def _settings(settings: Any, entered: Mapping[str, Any]) -> OAuthConfig:
    present = getattr(settings, "oauth", None) or OAuthConfig()
    tree = present.model_dump(by_alias=True, exclude_unset=True) | dict(entered)
    try:
        return OAuthConfig.model_validate(tree)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise CredentialError(f"oauth.{key}: {fault['msg']}.", "Correct it.") from error
