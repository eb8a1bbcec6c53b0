"""Registers the method and the command for the prompt of a conversation."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.methods({}, "methods:METHODS")
    api.commands("commands:commands")
