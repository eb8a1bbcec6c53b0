"""Protocol of what makes text of a recording."""

from typing import Protocol

from skerry.ports.model_candidates import CallTarget


class Transcriber(Protocol):
    """Makes text of speech, with a provider that the configuration names."""

    async def transcribe(self, data: bytes, name: str, mime: str, target: CallTarget) -> str:
        """Returns the words of a recording; the call is charged to `target`.

        Raises:
            MediaError: there are none, with the reason in a sentence.
        """
        ...
