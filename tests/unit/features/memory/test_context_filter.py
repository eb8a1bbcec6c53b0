"""Passages that are in the prompt already are removed from the hits."""

from collections.abc import Sequence

from msgspec.structs import replace

from skerry.features.memory.context_filter import outside_context
from skerry.model.memory import KnownMessages, MemoryHit, MemorySource
from skerry.model.recalled import unrecalled

KEY = "agent:main:main"
EARLY = "User: The key of the shed hangs in the mill.\n\nAssistant: Noted."
LATE = "User: Where does the key\nof the shed hang?\n\nAssistant: Let me see."
HIT = MemoryHit(
    "sessions/1.md", 11, 16, 0.9, f"{EARLY}\n\n{LATE}", MemorySource.SESSIONS, session=KEY
)
HEARD = KnownMessages(KEY, 7, lambda: ["Where does the key\nof  the shed hang?", "Let me see."])
QUESTION = "Where does the key of the shed hang?"


def kept_hits(*hits: MemoryHit) -> Sequence[MemoryHit]:
    return list(outside_context(hits, HEARD, QUESTION))


def test_a_passage_ends_before_the_first_message_that_the_model_has() -> None:
    (hit,) = kept_hits(HIT)
    assert hit.text.rstrip() == EARLY
    assert hit.start_line == 11
    assert hit.end_line < HIT.end_line


def test_a_passage_that_answers_with_what_was_heard_alone_is_left_out() -> None:
    weather = "User: It rains.\n\nAssistant: It does."
    assert kept_hits(replace(HIT, text=f"{weather}\n\n{LATE}")) == []
    assert kept_hits(replace(HIT, text=LATE)) == []


def test_what_a_memory_put_before_a_message_was_not_said() -> None:
    recalled = f'<recalled-memory id="1">\n{EARLY}\n</recalled-memory id="1">\n\nWhere is it?'
    known_messages = KnownMessages(KEY, 7, lambda: [recalled])
    assert unrecalled(recalled).strip() == "Where is it?"
    assert list(outside_context([replace(HIT, text=EARLY)], known_messages, QUESTION)) == [
        replace(HIT, text=EARLY)
    ]


def test_notes_and_other_conversations_stay_as_they_are() -> None:
    note = replace(HIT, source=MemorySource.MEMORY, session=None)
    other = replace(HIT, session="agent:main:other")
    before = replace(HIT, text=EARLY)
    assert kept_hits(note, other, before) == [note, other, before]
