"""Registers the models: their commands, and what `skerry doctor` says of them."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.check("checks:answering")
    api.commands("commands:commands")
