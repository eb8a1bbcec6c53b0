"""Registers heartbeats: their service, their methods and their event."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "heartbeat.status": READERS,
        "last-heartbeat": READERS,
        "set-heartbeats": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
    api.event("heartbeat", READERS, "A heartbeat of an agent has ended.")
    api.service("service:run")
