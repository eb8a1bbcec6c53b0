"""What remembering a conversation costs: whole passages once, notes before them, in spare time."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.documents import Document
from skerry.features.memory.index import Index
from skerry.features.memory.index_keeper import ORDER
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.passage_embedding import PIECEMEAL, RIPE_MS
from skerry.features.memory.transcript_markdown import PAUSE_MS, document
from skerry.infra.http import HttpClient
from skerry.infra.log import Redactor
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryMode, MemoryQuestion, TrackedConversation, Utterance
from skerry.testing.clock import FakeClock
from skerry_recall.embed import EmbeddingModel
from skerry_recall.embedding_apis import OpenAiWire
from skerry_recall.remote import Remote, RemoteEmbedder
from tests.unit.recall.embedding_server import EmbeddingServer, embedding_server

TURNS = 50
TALK = TrackedConversation("s1", "agent:main:main", 0, 0, 0)


@dataclass
class Talking:
    """A conversation that grows beside a note, and the server that embeds it."""

    home: Path
    server: EmbeddingServer
    http: httpx2.AsyncClient
    clock: FakeClock = field(default_factory=FakeClock)
    said: list[Utterance] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.home / "w").mkdir()
        where = Remote(EmbeddingModel("openai@here", "m"), self.server.url, OpenAiWire())
        model = RemoteEmbedder(self.http, where)
        places, clock = MemoryPaths(self.home / "w"), self.clock
        index = Index(self.home / "main.sqlite", IndexSettings(places), clock)
        self.memory = BuiltinMemory(
            AgentId("main"), index, clock, transcripts=self, embedder=lambda: model
        )

    def say(self, number: int) -> None:
        for by_user in (True, False):
            text = f"In turn {number} somebody spoke at length of " + f"thing {number} and " * 10
            self.said.append(Utterance(by_user=by_user, text=text, at=self.clock.now_ms()))

    def conversations(self, since: int) -> list[TrackedConversation]:
        if not self.said:
            return []
        size, at = sum(len(utterance.text) for utterance in self.said), self.said[-1].at
        tracked_conversation = replace(TALK, entries=len(self.said), size=size, updated_at=at)
        return [tracked_conversation] if at >= since else []

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        behind = [
            utterance for utterance in self.said if utterance.seq > after or not utterance.seq
        ]
        return document(conversation, behind, Redactor())

    @property
    def given(self) -> list[str]:
        """The texts that the server was given."""
        return [text for request in self.server.asked for text in request.json["input"]]


@pytest.fixture
async def talking(tmp_path: Path) -> AsyncGenerator[Talking]:
    async with embedding_server() as server, HttpClient() as http:
        made = Talking(tmp_path, server, http)
        yield made
        made.memory.close()


async def test_over_fifty_turns_no_passage_is_embedded_while_it_grows_and_none_twice(
    talking: Talking,
) -> None:
    for number in range(TURNS):
        talking.say(number)
        talking.clock.advance(300_000)
        await talking.memory.sync()
    status = await talking.memory.status()
    assert len(talking.given) == len(set(talking.given)) == status.chunks - 1
    assert status.backlog is not None
    assert (status.backlog.notes, status.backlog.said) == (0, 1)
    talking.clock.advance(RIPE_MS)
    await talking.memory.sync()
    status = await talking.memory.status()
    assert (status.vectors, status.backlog) == (status.chunks, None), "it rests: it is whole"
    assert len(talking.given) == len(set(talking.given)) == status.chunks


async def test_what_was_said_is_found_by_words_after_a_pause_of_seconds(talking: Talking) -> None:
    talking.say(7)
    await talking.memory.read()
    assert (await talking.memory.status()).chunks == 0
    talking.clock.advance(PAUSE_MS)
    await talking.memory.read()
    answer = await talking.memory.search(MemoryQuestion("thing 7"))
    assert answer.hits[0].session == TALK.key
    assert answer.mode is MemoryMode.TEXT


async def test_notes_get_their_vectors_first_and_without_what_was_said(talking: Talking) -> None:
    for number in range(TURNS):
        talking.say(number)
    talking.clock.advance(RIPE_MS)
    await talking.memory.read()
    (talking.home / "w" / "MEMORY.md").write_text("The dentist is Dr. Maro.\n")
    await talking.memory.read()
    await talking.memory.embed(sources=ORDER[:1])
    assert talking.given == ["The dentist is Dr. Maro."]
    answer = await talking.memory.search(MemoryQuestion("teeth"))
    assert (answer.mode, answer.fallback) == (MemoryMode.HYBRID, None)
    assert await talking.memory.waits()
    (talking.home / "w" / "memory").mkdir()
    (talking.home / "w" / "memory" / "late.md").write_text("The boat is blue.\n")
    talking.server.asked.clear()
    await talking.memory.sync()
    assert talking.given[0] == "The boat is blue."
    assert not await talking.memory.waits()


async def test_no_more_is_asked_when_the_time_for_conversations_is_over(talking: Talking) -> None:
    for number in range(TURNS):
        talking.say(number)
    talking.clock.advance(RIPE_MS)
    await talking.memory.read()
    assert await talking.memory.embed(sources=ORDER[1:], seconds=0.0) == 0
    assert talking.given == []
    await talking.memory.embed(sources=ORDER[1:], seconds=1e-9)
    assert len(talking.given) <= PIECEMEAL


async def test_each_conversation_tells_how_it_is_found(talking: Talking) -> None:
    for number in range(TURNS):
        talking.say(number)
    talking.clock.advance(PAUSE_MS)
    await talking.memory.read()
    (before,) = await talking.memory.listing()
    assert before.passages
    assert before.vectors == 0
    await talking.memory.embed()
    (after,) = await talking.memory.listing()
    assert after.vectors == before.passages - 1
    assert after.changed_at == talking.said[-1].at
