"""Registers accounts on chat platforms: methods, commands, and checks of `skerry doctor`."""

from skerry.policy.access import ADMINS, READERS, WRITERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
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
