"""Registers the transcription: it fills the slot `transcription`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.open_slot("transcription", "service:Transcriptions")
