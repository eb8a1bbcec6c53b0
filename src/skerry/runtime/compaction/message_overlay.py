"""Messages to send: the conversation itself, or a copy in which single messages are shorter.

The copy follows the conversation and keeps each message's wire form, so that a turn encodes only
what is new, and what was shortened once stays so: the beginning of the request stays the same from
call to call, and the provider's cache counts.
"""

from operator import is_

from skerry.model.message import Message
from skerry.ports.model import History


class View:
    """A conversation with some messages replaced. The conversation itself stays as it is."""

    def __init__(self) -> None:
        self._replaced: dict[int, tuple[Message, Message]] = {}
        """Pairs by index: the message of the conversation, and its replacement."""
        self._sources: list[Message] = []
        self._copy: History | None = None

    def replace(self, history: History, place: int, message: Message) -> None:
        """Send `message` in place of the one at `place`, as long as that is there."""
        self._replaced[place] = history.messages[place], message
        if self._copy is not None and place < len(self._copy.messages):
            self._copy.cut(place)
            del self._sources[place:]

    def of(self, history: History) -> History:
        """Returns the messages to send: the conversation itself if nothing is replaced."""
        messages = history.messages
        self._replaced = {
            place: pair
            for place, pair in self._replaced.items()
            if place < len(messages) and messages[place] is pair[0]
        }
        if not self._replaced:
            self._copy, self._sources = None, []
            return history
        copy = self._copy = self._copy or History()
        same = _common(self._sources, messages)
        copy.cut(same)
        del self._sources[same:]
        for place in range(same, len(messages)):
            self._sources.append(messages[place])
            copy.append(self._at(place, messages[place]))
        return copy

    def shown(self, history: History) -> list[Message]:
        """Return the messages as they would be sent."""
        return [self._at(place, one) for place, one in enumerate(history.messages)]

    def _at(self, place: int, message: Message) -> Message:
        source, replacement = self._replaced.get(place, (None, message))
        return replacement if source is message else message


def _common(first: list[Message], second: list[Message]) -> int:
    """Return how many messages the two have in common at their begin, by identity."""
    for place, same in enumerate(map(is_, first, second)):
        if not same:
            return place
    return min(len(first), len(second))
