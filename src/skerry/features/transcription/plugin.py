"""Registers the transcription: it holds the slot `transcription`."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.open_slot("transcription", "service:Transcriptions")
