"""Check of `skerry doctor`: who can reach the endpoints, and how the token is sent."""

from collections.abc import Iterator
from typing import Final

from skerry.config.gateway import AuthMode
from skerry.config.root import Config
from skerry.features.openai_api.config import HttpConfig
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation

_NAME: Final = "HTTP endpoints"
LEAST: Final = 24
"""Minimum length of a token, in characters."""


async def exposure(installation: Installation) -> Iterator[Check]:
    """Yields a finding for endpoints that others can use, or whose token can be read."""
    config = installation.config
    if config is None or not _is_open(config.gateway.section(HttpConfig)):
        return iter(())
    found = list(_findings(config))
    return iter(found or [Check(_NAME, Level.OK, "programs on this machine can use them.")])


def _is_open(http: HttpConfig) -> bool:
    return http.is_open or http.endpoints.tools_invoke.enabled


def _findings(config: Config) -> Iterator[Check]:
    gateway, token = config.gateway, config.gateway.section(HttpConfig).token
    if gateway.auth.mode is AuthMode.NONE:
        message = "gateway.auth.mode is none: every program on this machine can use them."
        yield Check(_NAME, Level.WARNING, message, "skerry config set gateway.auth.mode token")
    if token is not None and token.get_secret_value() == gateway.auth.secret:
        message = "gateway.http.token is the gateway's token, so it is valid on this machine only."
        yield Check(_NAME, Level.WARNING, message, "set another one: openssl rand -hex 32")
    elif token is not None and len(token.get_secret_value()) < LEAST:
        message = f"gateway.http.token can be guessed: it has fewer than {LEAST} characters."
        yield Check(_NAME, Level.WARNING, message, "set a new one: openssl rand -hex 32")
    if gateway.exposed and token is not None:
        message = f"gateway.bind is {gateway.bind}: other machines send the token unencrypted."
        remedy = "skerry config set gateway.bind loopback, with a TLS proxy before it"
        yield Check(_NAME, Level.WARNING, message, remedy)
