"""Check of `skerry doctor`: keys of webhooks that can be guessed, or are the gateway's own."""

from collections.abc import Iterator

from skerry.config.webhooks import WebhooksConfig
from skerry.features.webhooks import proof
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation

_FRESH = "set a new one: openssl rand -hex 32"


async def keys(installation: Installation) -> Iterator[Check]:
    """Yields a finding for each weak key."""
    config = installation.config
    if config is None or not config.hooks.enabled:
        return iter(())
    return iter(list(_findings(config.hooks, config.gateway.auth.secret or "")))


def _findings(hooks: WebhooksConfig, gateway: str) -> Iterator[Check]:
    token = hooks.token.get_secret_value() if hooks.token else ""
    if token and proof.is_token(token, gateway):
        message = "hooks.token is the gateway's token: webhooks are refused."
        yield Check("webhooks", Level.FAILURE, message, _FRESH)
    elif token and (why := proof.weakness(token)):
        yield Check("webhooks", Level.WARNING, f"hooks.token can be guessed: {why}.", _FRESH)
    for mapping in hooks.mappings:
        if mapping.signature is None:
            continue
        if why := proof.weakness(mapping.signature.secret.get_secret_value()):
            message = f"The secret of the webhook {mapping.name!r} can be guessed: {why}."
            yield Check("webhooks", Level.WARNING, message, _FRESH)
