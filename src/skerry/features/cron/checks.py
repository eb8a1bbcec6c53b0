"""Check of `skerry doctor`: the token of webhooks is sent to some address."""

from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def webhook_token(installation: Installation) -> list[Check]:
    """Returns a warning when no webhook receives the configured token."""
    config = installation.config
    if config is None or config.cron.webhook_token is None or config.cron.webhook_token_urls:
        return []
    message = (
        "cron.webhookToken is set, but cron.webhookTokenUrls names no address that receives it."
    )
    remedy = 'Set cron.webhookTokenUrls to the addresses of your webhooks: ["https://.../"].'
    return [Check("cron webhooks", Level.WARNING, message, remedy)]
