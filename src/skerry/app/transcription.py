"""Chooses who makes text of recordings."""

from collections.abc import Callable, Mapping

from skerry.config.root import Config
from skerry.ports.model_candidates import Accounts
from skerry.ports.transcription import Transcriber
from skerry.providers.late import transcription


def transcriber(
    config: Callable[[], Config], environ: Mapping[str, str], accounts: Accounts
) -> Transcriber | None:
    """Returns the models that make text of recordings, where the configuration names some."""
    audio = config().tools.media.audio
    if not (audio.enabled and audio.models):
        return None
    return transcription.Transcriptions(config, environ, accounts)
