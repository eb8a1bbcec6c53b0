"""Registers the embedded model: it fills the slot `embedded_model`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.open_slot("embedded_model", "model:FileModel")
    api.check("checks:runs_here")
