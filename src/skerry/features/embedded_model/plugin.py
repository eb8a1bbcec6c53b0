"""Registers the embedded model: it holds the slot `embedded_model`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.open_slot("embedded_model", "model:FileModel")
    api.check("checks:runs_here")
