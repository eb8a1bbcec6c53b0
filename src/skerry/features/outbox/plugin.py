"""Registers the outbox: its methods and its check of `skerry doctor`."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "outbox.drop": ADMINS,
        "outbox.get": READERS,
        "outbox.list": READERS,
        "outbox.retry": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
    api.status_check("checks:undelivered")
