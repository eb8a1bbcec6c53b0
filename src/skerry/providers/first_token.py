"""A listener that knows whether a response has begun: what was given on cannot be taken back."""

from skerry.ports.model import Listener


class Spoken:
    """Passes on what it hears. `begun` says whether it heard anything yet."""

    def __init__(self, hear: Listener) -> None:
        self._hear = hear
        self.begun = False
        self.listener = Listener(self._text, self._thinking, hear.on_note, hear.on_spent)

    def _text(self, text: str) -> None:
        self.begun = True
        self._hear.on_text(text)

    def _thinking(self, thinking: str) -> None:
        self.begun = True
        self._hear.on_thinking(thinking)
