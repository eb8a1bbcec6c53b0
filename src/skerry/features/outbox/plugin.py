"""Registers the outbox: its methods and what `skerry doctor` says of it."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    needs = {
        "outbox.drop": ADMINS,
        "outbox.get": READERS,
        "outbox.list": READERS,
        "outbox.retry": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
    api.status_check("checks:undelivered")
