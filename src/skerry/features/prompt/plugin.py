"""Registers the method and the command on the prompt of a conversation."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.methods({}, "methods:METHODS")
    api.commands("commands:commands")
