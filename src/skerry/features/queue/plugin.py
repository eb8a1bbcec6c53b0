"""Registers the commands for messages that arrive during a run."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.commands("commands:commands")
