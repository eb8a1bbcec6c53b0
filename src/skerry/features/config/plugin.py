"""Registers the methods and commands of the configuration."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "config.apply": ADMINS,
        "config.get": READERS,
        "config.schema": ADMINS,
    }
    api.methods(needs, "methods:METHODS")
    api.commands("commands:commands")
