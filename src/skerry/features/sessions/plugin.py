"""Registers the commands on conversations."""

from skerry.policy.access import READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.commands("commands:commands")
    api.methods({"sessions.taint": READERS}, "taint_methods:METHODS")
