"""Registers the methods and commands for conversations."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "sessions.delete": ADMINS,
        "sessions.describe": READERS,
        "sessions.list": READERS,
        "sessions.preview": READERS,
        "sessions.prune": ADMINS,
        "sessions.resolve": READERS,
        "sessions.taint": READERS,
    }
    api.methods(needs, "methods:METHODS")
    api.commands("commands:commands")
