"""Signs a person in to a provider: prints an address, waits for the browser or for a paste."""

import sys
from collections.abc import Callable
from typing import Final

import anyio

from skerry.app.auth import Entered, Keeper
from skerry.auth.profiles import CredentialKind, Profile
from skerry.auth.refresh import Tokens
from skerry.auth.signin import PRESETS, WAIT_SECONDS, Callback, Service, SignIn, callback
from skerry.infra.clock import SystemClock
from skerry.infra.http import HttpClient
from skerry.model.errors import CredentialError

_LONGEST: Final = 16_384


async def sign_in(keeper: Keeper, provider: str, name: str, tell: Callable[[str], None]) -> Profile:
    """Signs in to a provider and keeps what it gives; returns the profile.

    Raises:
        CredentialError: it is not known how, it was refused, or nobody came back in ten minutes.
    """
    provider, _ = keeper.provider(provider)
    service = service_of(keeper, provider)
    clock = SystemClock()
    try:
        async with callback(service.port) as waiting, HttpClient() as http:
            attempt = SignIn(service, waiting.port)
            tell(f"Open this in a browser:\n\n  {attempt.url}\n")
            tell(
                "If the browser is on another machine, it ends at an address that it cannot reach:"
            )
            tell("paste that address here.")
            code = attempt.code(await _answer(waiting))
            tokens = await attempt.finish(http, code, clock.now_ms())
    except OSError as error:
        message = f"Port {service.port} cannot be used: {error.strerror}."
        raise CredentialError(message, "Stop the program that uses it, and start again.") from error
    return keeper.keep(_entered(service, provider, name, tokens), clock)


def service_of(keeper: Keeper, provider: str) -> Service:
    """Returns where one signs in to a provider.

    Raises:
        CredentialError: neither the configuration nor public documentation says.
    """
    configured = keeper.config.auth.providers.get(provider)
    if configured is not None:
        secret = configured.client_secret
        return Service(
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


async def _answer(waiting: Callback) -> str:
    """Returns the answer from the browser or from the keyboard, whichever is first."""
    queries: list[str] = []

    async def from_browser() -> None:
        queries.append(await waiting.answer())
        tasks.cancel_scope.cancel()

    async def from_keyboard() -> None:
        while not queries:
            try:
                await anyio.wait_readable(sys.stdin)
            except OSError:  # a file or /dev/null: nobody types there
                return
            line = sys.stdin.readline(_LONGEST)
            if not line:  # nothing comes any more; the browser still can
                return
            if line.strip():
                queries.append(line)
                tasks.cancel_scope.cancel()

    with anyio.move_on_after(WAIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(from_browser)
            tasks.start_soon(from_keyboard)
    if not queries:
        raise CredentialError("The browser sent no answer within ten minutes.", "Try again.")
    return queries[0]


def _entered(service: Service, provider: str, name: str, tokens: Tokens) -> Entered:
    if service.gives_key:
        return Entered(provider, name, CredentialKind.API_KEY, {"key": tokens.access})
    if not tokens.refresh:
        more = {"expires": tokens.expires} if tokens.expires else {}
        return Entered(provider, name, CredentialKind.TOKEN, {"token": tokens.access}, more)
    secrets = {"access": tokens.access, "refresh": tokens.refresh}
    if service.client_secret:
        secrets["clientSecret"] = service.client_secret
    renewal: dict[str, str | int] = {
        "expires": tokens.expires or 0,
        "tokenUrl": service.token_url,
        "clientId": service.client_id,
    }
    return Entered(provider, name, CredentialKind.OAUTH, secrets, renewal)
