"""Conversion of conversations to Markdown: role by role, without secrets and text of the memory.

An incarnation of a conversation is the document `sessions/<id>.md`; each passage has the date of
the utterance that it begins with.
"""

from collections.abc import Callable, Sequence
from typing import Final

from skerry.features.memory.documents import Document, Stamp
from skerry.features.memory.index_tables import IndexedDocument
from skerry.model.memory import MemorySource, TrackedConversation, Utterance
from skerry.model.recalled import unrecalled

DELTA_BYTES: Final = 100_000
DELTA_ENTRIES: Final = 50
"""New entries after which it is indexed (openclaw-behaviour 10.1, `sync.sessions`)."""
REST_MS: Final = 5 * 60_000
"""Milliseconds without a message after which it is indexed: text before a pause is found too."""
PAUSE_MS: Final = 4_000
"""Milliseconds without a message, when a large part is new."""
PART: Final = 10
"""One entry in so many; else a long conversation would be read for each message. It also takes the
place of the two limits above in a conversation that is so long that it is more than they are: to
index it reads all of it, which would cost the square of its length."""
RETENTION_DAYS: Final = 30
SESSIONS: Final = "sessions/"
MOST_CHARS: Final = 4 << 20
"""Size of one conversation, in characters; of a longer one the end is kept."""
"""Text that a memory put before a question: else it would be found before its own source."""


def path_of(conversation: TrackedConversation) -> str:
    """Returns the path of the document."""
    return f"{SESSIONS}{conversation.session_id}.md"


def stamp_of(conversation: TrackedConversation) -> Stamp:
    """Returns the state that shows whether there are new messages: size, time and entries."""
    return Stamp(conversation.size, conversation.updated_at, conversation.entries)


def is_due(
    known: IndexedDocument | None,
    conversation: TrackedConversation,
    now: int,
    most_bytes: int = DELTA_BYTES,
    most_entries: int = DELTA_ENTRIES,
) -> bool:
    """Returns whether so much is new, or the conversation rests, so that it is indexed (pure).

    `now` in ms since 1970.
    """
    was = Stamp(0, 0, 0) if known is None else known.stamp
    stamp = stamp_of(conversation)
    if stamp == was:
        return False
    rests = now - conversation.updated_at
    return (
        stamp.size - was.size >= max(most_bytes, was.size // PART)
        or stamp.ctime - was.ctime >= max(most_entries, was.ctime // PART)
        or stamp.ctime < was.ctime  # it was taken back, or redacted
        or rests >= REST_MS
        or (rests >= PAUSE_MS and PART * (stamp.ctime - was.ctime) >= stamp.ctime)
    )


def document(
    conversation: TrackedConversation, utterances: Sequence[Utterance], redact: Callable[[str], str]
) -> Document:
    """Returns the Markdown of a conversation (pure but for `redact`)."""
    lines: list[str] = []
    times: list[tuple[int, int]] = []
    for utterance in utterances:
        text = sanitised(utterance.text, redact)
        if not text:
            continue
        times.append((len(lines) + 1, utterance.at))
        lines += f"{'User' if utterance.by_user else 'Assistant'}: {text}".split("\n")
        lines.append("")
    whole = "\n".join(lines)
    if len(whole) > MOST_CHARS:
        cut = whole.index("\n", len(whole) - MOST_CHARS) + 1
        lines_before = whole.count("\n", 0, cut)
        whole = whole[cut:]
        times = [(max(1, line - lines_before), at) for line, at in times]
    return Document(
        path_of(conversation),
        MemorySource.SESSIONS,
        whole,
        stamp_of(conversation),
        conversation.updated_at,
        conversation.key,
        times,
    )


def sanitised(text: str, redact: Callable[[str], str]) -> str:
    """Returns the text without secrets, recalled passages, and white space at its ends."""
    return redact(unrecalled(text)).replace("\r\n", "\n").strip()
