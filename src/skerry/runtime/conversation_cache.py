"""The conversations that are in use, kept in memory as the model needs them."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from skerry.model.ids import SessionId
from skerry.model.message import Message, UserMessage
from skerry.model.session import TranscriptEntry
from skerry.ports.model import History
from skerry.runtime.run_hooks import with_context
from skerry.runtime.untrusted_results import fenced
from skerry.sessions.cutting import spoken
from skerry.sessions.history import is_command_answer, mended
from skerry.sessions.summary import shown
from skerry.sessions.window import View
from skerry.store import Reader, Store, compactions, frozen, sessions

KEPT: Final = 256
KEPT_CHARS: Final = 32 * 1024 * 1024
"""Characters that they may have together, the base64 of their images included."""


class Conversation(Struct):
    """Messages of a session for the model, and the number of the last stored entry."""

    history: History
    tail: int
    since: int = 0
    """Index of the first message that was said after the last compaction."""
    compactions: int = 0
    """Number of compactions."""
    flushed: bool = False
    """True if notes were flushed, or it was tried, since the last compaction."""
    sent_from: int = 0
    """Index of the first message that the last request of the present run had."""
    view: View = field(default_factory=View)
    """Overlay with the messages to send."""
    weight: int = 0
    """Its characters when it was last asked for."""
    told: set[str] = field(default_factory=set)
    """Notices that its people have seen: each is told once."""

    @property
    def sent(self) -> Sequence[Message]:
        """Returns the messages that the model was sent, and those that followed."""
        return self.history.messages[self.sent_from :]

    def add(self, message: Message) -> None:
        """Adds a message as the model reads it: what a tool brought from elsewhere in a fence."""
        self.history.append(fenced(message))

    def forget_command(self) -> None:
        """Takes out the command that was just answered, with its answer, if it was one."""
        messages = self.history.messages
        if messages and is_command_answer(messages[-1]):
            self.history.cut(len(messages) - 2)


class Histories(Struct):
    """The last conversations used, as far as there is room for them, and always the very last.

    Only the run that holds a session's lane may touch its own.
    """

    store: Store
    _kept: OrderedDict[SessionId, Conversation] = field(default_factory=OrderedDict)
    _weight: int = 0

    async def get(self, session_id: SessionId, before: int) -> Conversation:
        """Returns the conversation as it stands before entry `before`, read anew if it must be."""
        kept = self._kept.get(session_id)
        if kept is None or kept.tail != before - 1:
            self.forget(session_id)
            kept = Conversation(History(), before - 1)
            if before > 1:
                await self.load(kept, session_id, before)
            self._kept[session_id] = kept
        self._kept.move_to_end(session_id)
        self._weight -= kept.weight
        kept.weight = kept.history.weight
        self._weight += kept.weight
        while len(self._kept) > 1 and (len(self._kept) > KEPT or self._weight > KEPT_CHARS):
            self._weight -= self._kept.popitem(last=False)[1].weight
        return kept

    def forget(self, session_id: SessionId) -> None:
        """Reads it from the store next time."""
        kept = self._kept.pop(session_id, None)
        if kept is not None:
            self._weight -= kept.weight

    def clear(self) -> None:
        """Reads every one from the store next time: what stands there was changed."""
        self._kept.clear()
        self._weight = 0

    async def load(
        self, conversation: Conversation, session_id: SessionId, before: int
    ) -> list[int]:
        """Makes the conversation what the store has of it before entry `before`.

        That is the last summary, if there is one, and all that was said from the first entry on
        that it does not stand for. Returns the number of each message's entry, 0 of the summary.
        """

        def read(
            reader: Reader,
        ) -> tuple[compactions.State, list[TranscriptEntry], dict[int, str]]:
            state = compactions.state(reader, session_id)
            after = state.last.first_kept - 1 if state.last else 0
            found = sessions.entries(reader, session_id, limit=-1, before=before, after=after)
            return state, found, frozen.notes(reader, session_id)

        state, entries, notes = await self.store.read(read)
        said = spoken(mended([(entry.seq, entry.message) for entry in entries]))
        history = conversation.history
        history.cut(0)
        if state.last is not None:
            history.append(shown(state.last))
        for number, message in said:
            if isinstance(message, UserMessage) and number in notes:
                message = with_context(message, notes[number])  # noqa: PLW2901 - as it is sent
            conversation.add(message)
        numbers = [0] * (state.last is not None) + [number for number, _ in said]
        conversation.compactions = state.count
        conversation.flushed = state.flushed == state.count
        conversation.since = sum(number < state.seq for number in numbers)
        # A summary may stand behind the message that is to be answered: its run began before.
        conversation.tail = max(before - 1, state.seq)
        return numbers
