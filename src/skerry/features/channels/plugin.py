"""Registers accounts on chat platforms: methods, and what `skerry doctor` says of them."""

from skerry.policy.access import ADMINS, READERS, WRITERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    needs = {
        "channels.login": ADMINS,
        "channels.login.answer": ADMINS,
        "channels.login.cancel": ADMINS,
        "channels.login.start": ADMINS,
        "channels.login.wait": ADMINS,
        "channels.logout": ADMINS,
        "channels.platforms": READERS,
        "channels.react": WRITERS,
        "channels.restart": ADMINS,
        "channels.status": READERS,
        "poll": WRITERS,
        "send": WRITERS,
    }
    api.methods(needs, "methods:METHODS")
    api.status_check("checks:accounts")
    api.http_prefix("/channels", "posts:make")
