"""The conversations that are in use, kept in memory as the model needs them."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from skerry.model.ids import SessionId
from skerry.ports.model import History
from skerry.sessions.history import is_command_answer, without_commands
from skerry.store import Store, sessions

KEPT: Final = 256
KEPT_CHARS: Final = 32 * 1024 * 1024
"""Characters that they may have together, the base64 of their images included."""


@dataclass(slots=True)
class Conversation:
    """What the model sees of a session, and the number of the last entry that is in the store."""

    history: History
    tail: int
    weight: int = 0
    """Its characters when it was last asked for."""

    def forget_command(self) -> None:
        """Take out the command that was just answered, with its answer, if it was one."""
        messages = self.history.messages
        if is_command_answer(messages[-1]):
            self.history.cut(len(messages) - 2)


@dataclass(slots=True)
class Histories:
    """The last conversations used, as far as there is room for them, and always the very last.

    Only the run that holds a session's lane may touch its own.
    """

    store: Store
    _kept: OrderedDict[SessionId, Conversation] = field(default_factory=OrderedDict)
    _weight: int = 0

    async def get(self, session_id: SessionId, before: int) -> Conversation:
        """Return the conversation as it stands before entry `before`, read anew if it must be."""
        kept = self._kept.get(session_id)
        if kept is None or kept.tail != before - 1:
            self.forget(session_id)
            kept = await self._load(session_id, before)
            self._kept[session_id] = kept
        self._kept.move_to_end(session_id)
        self._weight -= kept.weight
        kept.weight = kept.history.weight
        self._weight += kept.weight
        while len(self._kept) > 1 and (len(self._kept) > KEPT or self._weight > KEPT_CHARS):
            self._weight -= self._kept.popitem(last=False)[1].weight
        return kept

    def forget(self, session_id: SessionId) -> None:
        """Read it from the store next time."""
        kept = self._kept.pop(session_id, None)
        if kept is not None:
            self._weight -= kept.weight

    async def _load(self, session_id: SessionId, before: int) -> Conversation:
        if before == 1:
            return Conversation(History(), 0)
        entries = await self.store.read(
            lambda reader: sessions.entries(reader, session_id, limit=-1, before=before)
        )
        seen = without_commands(entry.message for entry in entries)
        return Conversation(History(seen), before - 1)
