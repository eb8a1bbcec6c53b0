"""Protocol of the transcription of recordings."""

from typing import Protocol

from skerry.ports.model_candidates import CallTarget


class Transcriber(Protocol):
    """Transcribes speech with the configured providers."""

    async def transcribe(self, data: bytes, name: str, mime: str, target: CallTarget) -> str:
        """Returns the words of a recording; the model call is booked to `target`.

        Args:
            data: The recording.
            name: Name of the file, for the provider.
            mime: Media type, such as `audio/ogg`.
            target: Agent, session and purpose of the call.

        Raises:
            MediaError: the recording could not be transcribed; the message is a sentence.
        """
        ...
