"""Gives the memory what was said, out of the store. Implements `ports.memory.Transcripts`."""

from collections.abc import Sequence

from msgspec import Struct

from skerry.model.ids import AgentId
from skerry.model.memory import TrackedConversation, Utterance
from skerry.store import Store, remembered


class StoredTranscripts(Struct, frozen=True):
    """The conversations of one state directory."""

    store: Store

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        """Returns the agent's in which something was said since then (ms), but deleted ones."""
        return await self.store.read(lambda reader: remembered.conversations(reader, agent, since))

    async def said(self, conversation: TrackedConversation) -> Sequence[Utterance]:
        """Returns the texts of the person and the assistant, in order."""
        return await self.store.read(
            lambda reader: remembered.said(reader, conversation.session_id)
        )
