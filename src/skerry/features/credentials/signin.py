"""Signs a person in to a provider: prints an address, waits for the browser or for a paste."""

from collections.abc import Callable

from skerry.app.credential_files import Entered, Keeper
from skerry.auth.profiles import CredentialKind, Profile
from skerry.auth.refresh import Tokens
from skerry.auth.signin import PRESETS, SignInService, obtained, printed, typed
from skerry.infra.clock import SystemClock
from skerry.model.errors import CredentialError


async def sign_in(keeper: Keeper, provider: str, name: str, tell: Callable[[str], None]) -> Profile:
    """Signs in to a provider and stores its tokens; returns the profile.

    Raises:
        CredentialError: the sign-in is unknown, was refused, or took more than ten minutes.
    """
    provider, _ = keeper.provider(provider)
    service = service_of(keeper, provider)
    clock = SystemClock()
    tokens = await obtained(service, clock, printed(tell), typed)
    return keeper.keep(_entered(service, provider, name, tokens), clock)


def service_of(keeper: Keeper, provider: str) -> SignInService:
    """Returns the sign-in service of a provider.

    Raises:
        CredentialError: neither the configuration nor the built-in list has a service.
    """
    configured = keeper.config.auth.providers.get(provider)
    if configured is not None:
        secret = configured.client_secret
        return SignInService(
            str(configured.authorize_url),
            str(configured.token_url),
            configured.client_id,
            secret.get_secret_value() if secret else "",
            configured.scopes,
            configured.redirect_port,
        )
    preset = PRESETS.get(provider)
    if preset is None:
        raise CredentialError(
            f"No sign-in is known for {provider}.",
            f"Enter a key (skerry auth add {provider}), or describe its OAuth service under"
            f" auth.providers.{provider}.",
        )
    return preset


def _entered(service: SignInService, provider: str, name: str, tokens: Tokens) -> Entered:
    if service.gives_key:
        return Entered(provider, name, CredentialKind.API_KEY, {"key": tokens.access})
    if not tokens.refresh:
        expiry = {"expires": tokens.expires} if tokens.expires else {}
        return Entered(provider, name, CredentialKind.TOKEN, {"token": tokens.access}, expiry)
    secrets = {"access": tokens.access, "refresh": tokens.refresh}
    if service.client_secret:
        secrets["clientSecret"] = service.client_secret
    renewal: dict[str, str | int] = {
        "expires": tokens.expires or 0,
        "tokenUrl": service.token_url,
        "clientId": service.client_id,
    }
    return Entered(provider, name, CredentialKind.OAUTH, secrets, renewal)
