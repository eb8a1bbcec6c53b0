"""Sign-in of an account in the browser: the refresh token enters the configuration."""

from collections.abc import Mapping
from typing import Any

import anyio
from pydantic import ValidationError

from skerry.auth.signin import Service, obtained
from skerry.cli.failure import FailedError
from skerry.cli.render import notice
from skerry.config.channel_oauth import OAuthConfig
from skerry.infra.channels import Platform
from skerry.infra.clock import SystemClock


def signed_in(
    platform: Platform, settings: Any, provider: str | None, given: Mapping[str, str]
) -> dict[str, Any]:
    """Signs a person in; returns the keys of the account to set, those of `given` included.

    Raises:
        FailedError: the platform has no sign-in, or what it needs is missing.
        CredentialError: it was refused, or nobody came back.
    """
    if "oauth" not in platform.section.model_fields:
        raise FailedError(
            f"{platform.label} has no sign-in in the browser.",
            f"Enter what it asks for: skerry channels login {platform.name}",
        )
    entered: dict[str, Any] = {
        key.partition(".")[2]: text for key, text in given.items() if key.startswith("oauth.")
    }
    if "scopes" in entered:
        entered["scopes"] = entered["scopes"].split()
    entered |= {"provider": provider} if provider else {}
    oauth = _settings(settings, entered)
    addresses = oauth.addresses
    if not (oauth.client_id and addresses.authorize_url and addresses.token_url):
        raise FailedError(
            "The sign-in needs the id of an application that you registered at the provider,"
            " and for `custom` its addresses.",
            "Give them: --set oauth.clientId=ID [--set oauth.clientSecret=SECRET]"
            " [--set oauth.authorizeUrl=URL --set oauth.tokenUrl=URL]",
        )
    secret = oauth.client_secret
    service = Service(
        addresses.authorize_url,
        addresses.token_url,
        oauth.client_id,
        secret.get_secret_value() if secret else "",
        addresses.scopes,
        oauth.redirect_port,
    )
    tokens = anyio.run(obtained, service, SystemClock(), notice)
    if not tokens.refresh:
        raise FailedError(
            "The provider gave no refresh token, so the account would end with its first token.",
            "Ask for it among the scopes, as `offline_access` at Microsoft: --set oauth.scopes=...",
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
        raise FailedError(f"oauth.{key}: {fault['msg']}.", "Correct it.") from error
