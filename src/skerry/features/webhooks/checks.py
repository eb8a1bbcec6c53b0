"""Check of `skerry doctor`: webhook secrets that can be guessed, or equal the gateway's token."""

from collections.abc import Iterator

from skerry.config.webhooks import WebhooksConfig
from skerry.features.webhooks import proof
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation

_REMEDY = "set a new one: openssl rand -hex 32"


async def keys(installation: Installation) -> Iterator[Check]:
    """Yields a finding for each weak secret."""
    config = installation.config
    if config is None or not config.hooks.enabled:
        return iter(())
    return iter(list(_findings(config.hooks, config.gateway.auth.secret or "")))


def _findings(hooks: WebhooksConfig, gateway: str) -> Iterator[Check]:
    token = hooks.token.get_secret_value() if hooks.token else ""
    if token and proof.is_token(token, gateway):
        message = "hooks.token is the gateway's token: webhooks are refused."
        yield Check("webhooks", Level.FAILURE, message, _REMEDY)
    elif token and (weakness := proof.weakness(token)):
        yield Check("webhooks", Level.WARNING, f"hooks.token can be guessed: {weakness}.", _REMEDY)
    for mapping in hooks.mappings:
        if mapping.signature is None:
            continue
        if weakness := proof.weakness(mapping.signature.secret.get_secret_value()):
            message = f"The secret of the webhook {mapping.name!r} can be guessed: {weakness}."
            yield Check("webhooks", Level.WARNING, message, _REMEDY)
