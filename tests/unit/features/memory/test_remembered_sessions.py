"""Conversations in the index: when they go in, what of them, and when they go."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.documents import Document, Resume
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.index_tables import IndexedDocument, Tables
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.transcript_markdown import (
    BLOCK,
    DELTA_BYTES,
    DELTA_ENTRIES,
    MAX_CHARS,
    REST_MS,
    document,
    is_due,
    path_of,
    resume_of,
    sanitised,
    stamp_of,
)
from skerry.infra.clock import DAY_MS
from skerry.infra.log import Redactor
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryQuestion, MemorySource, TrackedConversation, Utterance
from skerry.testing.clock import FakeClock

NOW = 1_760_000_000_000
TALK = TrackedConversation("s1", "agent:main:main", 4, 2000, NOW)


def known(conversation: TrackedConversation) -> IndexedDocument:
    return IndexedDocument(1, path_of(conversation), "", stamp_of(conversation), 1)


@dataclass
class StoredTranscripts:
    """What was said, as the test has it."""

    talks: dict[str, tuple[TrackedConversation, Sequence[Utterance]]] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    """How much was read each time."""

    def say(self, talk: TrackedConversation, *texts: str) -> None:
        utterances = [
            Utterance(by_user=seq % 2 == 1, text=text, at=talk.updated_at, seq=seq)
            for seq, text in enumerate(texts, 1)
        ]
        self.talks[talk.session_id] = (talk, utterances)

    def conversations(self, since: int) -> list[TrackedConversation]:
        return [talk for talk, _ in self.talks.values() if talk.updated_at >= since]

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        talks = [talk for talk in self.talks[conversation.session_id][1] if talk.seq > after]
        self.read.append(len(talks))
        return document(conversation, talks, Redactor())


@pytest.mark.requirement("memory-session-delta")
@pytest.mark.parametrize(
    ("new", "later", "due"),
    [
        (replace(TALK, entries=TALK.entries + DELTA_ENTRIES), 0, True),
        (replace(TALK, entries=TALK.entries + DELTA_ENTRIES - 1), 0, False),
        (replace(TALK, size=TALK.size + DELTA_BYTES), 0, True),
        (replace(TALK, size=TALK.size + DELTA_BYTES - 1), 0, False),
        (replace(TALK, entries=TALK.entries + 2), REST_MS, True),
        (replace(TALK, entries=TALK.entries - 1), 0, True),
        (TALK, DAY_MS, False),
    ],
    ids=["50 entries", "49", "100 kB", "less", "a pause", "redacted", "nothing new"],
)
def test_a_conversation_is_due_when_enough_is_new(
    new: TrackedConversation, later: int, *, due: bool
) -> None:
    assert is_due(known(TALK), new, NOW + later) is due


@pytest.mark.requirement("memory-session-delta")
def test_a_conversation_that_goes_on_is_read_from_its_last_block_on(tmp_path: Path) -> None:
    index = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "none")), FakeClock(NOW)
    )
    talks, texts = (
        StoredTranscripts(),
        [f"Boat {n} lies behind the island. " * 3 for n in range(40 * BLOCK)],
    )
    for count in range(DELTA_ENTRIES, len(texts), DELTA_ENTRIES):
        talks.say(replace(TALK, entries=count, size=count * 100), *texts[:count])
        index.sync(transcripts=talks)
    assert len(talks.read) == len(texts) // DELTA_ENTRIES
    assert max(talks.read) <= BLOCK + DELTA_ENTRIES
    with index.tables() as tables:
        grown = passages(tables)
    index.sync(transcripts=talks, force=True)
    with index.tables() as tables:
        assert passages(tables) == grown
    index.close()
    whole = document(TALK, talks.talks["s1"][1], Redactor()).text.split("\n")
    assert all(text in "\n".join(whole[begin - 1 : end]) for _, text, begin, end, _ in grown)
    assert f"Boat {count - 1} lies" in grown[-1][1]


def test_a_conversation_that_lost_something_is_read_whole() -> None:
    row = replace(known(replace(TALK, entries=200)), resume=Resume(3, 30, 400))
    for now, resume in (
        (replace(TALK, entries=300), Resume(3, 30, 400)),
        (replace(TALK, entries=199), None),
        (replace(TALK, entries=300, size=TALK.size - 1), None),
        (replace(TALK, entries=300, size=MAX_CHARS + 1), None),
    ):
        assert resume_of(row, now) == resume
    assert resume_of(replace(row, error="it cannot be read"), replace(TALK, entries=300)) is None
    assert resume_of(None, TALK) is None


def passages(tables: Tables) -> list[tuple[int, str, int, int, int | None]]:
    return [
        (passage.position, passage.text, passage.start_line, passage.end_line, passage.at)
        for passage in tables.passages()
    ]


@pytest.mark.requirement("memory-session-export")
def test_a_conversation_is_markdown_with_its_roles_and_the_times_of_its_parts() -> None:
    utterances = [
        Utterance(by_user=True, text="Where is\nthe boat?", at=10),
        Utterance(by_user=False, text="In Faro.", at=20),
    ]
    made = document(TALK, utterances, Redactor())
    assert made.text == "User: Where is\nthe boat?\n\nAssistant: In Faro.\n"
    assert (made.path, made.session, made.source) == (
        "sessions/s1.md",
        "agent:main:main",
        MemorySource.SESSIONS,
    )
    assert made.times == [(1, 10), (4, 20)]


@pytest.mark.requirement("memory-session-sanitised")
def test_secrets_and_what_the_memory_said_are_left_out() -> None:
    text = "<relevant-memories>\nold news\n</relevant-memories>\nmy key: sk-abcdefghijklmnop1234"
    assert sanitised(text, Redactor()) == "my key: [redacted]"


@pytest.mark.requirement("memory-session-retention")
def test_a_conversation_leaves_the_index_thirty_days_after_its_last_word(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    index = Index(tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "none")), clock)
    talks = StoredTranscripts()
    talks.say(replace(TALK, updated_at=NOW - REST_MS), "The boat is in Faro.")
    assert index.sync(transcripts=talks).added == 1
    clock.advance(30 * DAY_MS)
    assert index.sync(transcripts=talks).removed == 1
    with index.tables() as tables:
        assert not tables.ids()
    index.close()


def test_what_grows_keeps_the_passages_that_it_had(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    index = Index(tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "none")), clock)
    talks = StoredTranscripts()
    texts = [f"Story number {n}: " + "word " * 150 for n in range(20)]
    talks.say(replace(TALK, updated_at=NOW - REST_MS), *texts[:19])
    index.sync(transcripts=talks)
    with index.tables() as tables:
        before = tables.ids()
    talks.say(replace(TALK, entries=60, updated_at=NOW - REST_MS), *texts)
    index.sync(transcripts=talks)
    with index.tables() as tables:
        after = tables.ids()
    index.close()
    assert len(before - after) <= 1
    assert after - before


def test_a_rebuild_takes_in_what_is_not_due_yet(tmp_path: Path) -> None:
    index = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "none")), FakeClock(NOW)
    )
    talks = StoredTranscripts()
    talks.say(TALK, "The boat is in Faro.")
    assert index.sync(transcripts=talks).added == 0
    assert index.sync(transcripts=talks, force=True).added == 1
    index.close()


@pytest.mark.requirement("memory-hierarchy")
async def test_one_question_finds_what_was_noted_and_what_was_said(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "MEMORY.md").write_text("The boat is blue.")
    index = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "w")), FakeClock(NOW)
    )
    talks = StoredTranscripts()
    talks.say(replace(TALK, updated_at=NOW - REST_MS), "The boat is in Faro.")
    memory = BuiltinMemory(AgentId("main"), index, FakeClock(NOW), transcripts=talks)
    await memory.sync()
    answer = await memory.search(MemoryQuestion("Where is the boat?"))
    assert {hit.source for hit in answer.hits} == set(MemorySource)
    memory.close()
