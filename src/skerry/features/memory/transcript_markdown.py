"""Converts conversations to Markdown, with roles, without secrets and recalled passages.

A session is the document `sessions/<id>.md`; each passage has the date of its first message.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from skerry.features.memory.documents import Document, Resume, Stamp
from skerry.features.memory.index_tables import IndexedDocument
from skerry.model.memory import MemorySource, TrackedConversation, Utterance
from skerry.model.recalled import unrecalled

DELTA_BYTES: Final = 100_000
DELTA_ENTRIES: Final = 50
"""New entries after which a conversation is indexed (openclaw-behaviour 10.1,
`sync.sessions`)."""
REST_MS: Final = 5 * 60_000
"""Milliseconds without a message after which a conversation is indexed."""
PAUSE_MS: Final = 4_000
"""Milliseconds without a message after which it is indexed when a large part is new."""
PART: Final = 10
PART_ENTRIES: Final = 16
"""A large part is one entry in ten, or 16 entries in a long conversation. Indexing it takes some
8 ms of CPU, so it is not done after each turn."""
BLOCK: Final = 64
"""Entries of a block. Each block is cut into passages separately, so that only the last block of a
grown conversation is read again: the cost of a message does not depend on the length of the
conversation."""
RETENTION_DAYS: Final = 30
SESSIONS: Final = "sessions/"
MAX_CHARS: Final = 4 << 20
"""Limit on the characters of a conversation; only the end of a longer one is indexed."""


def path_of(conversation: TrackedConversation) -> str:
    """Returns the path of the document."""
    return f"{SESSIONS}{conversation.session_id}.md"


def stamp_of(conversation: TrackedConversation) -> Stamp:
    """Returns the stamp that detects new messages: size, time and entries."""
    return Stamp(conversation.size, conversation.updated_at, conversation.entries)


def is_due(
    indexed: IndexedDocument | None,
    conversation: TrackedConversation,
    now: int,
    delta_bytes: int = DELTA_BYTES,
    delta_entries: int = DELTA_ENTRIES,
) -> bool:
    """Returns whether to index a conversation: enough is new, or it is paused (pure).

    `now` is in ms since 1970.
    """
    was = Stamp(0, 0, 0) if indexed is None else indexed.stamp
    stamp = stamp_of(conversation)
    if stamp == was:
        return False
    rests, new = now - conversation.updated_at, stamp.ctime - was.ctime
    return (
        stamp.size - was.size >= delta_bytes
        or new >= delta_entries
        or stamp.ctime < was.ctime  # it was truncated, or redacted
        or rests >= REST_MS
        or (rests >= PAUSE_MS and new >= min(stamp.ctime / PART, PART_ENTRIES))
    )


def document(
    conversation: TrackedConversation, utterances: Sequence[Utterance], redact: Callable[[str], str]
) -> Document:
    """Returns the Markdown of a conversation (pure but for `redact`)."""
    lines: list[str] = []
    times: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    for utterance in utterances:
        text = sanitised(utterance.text, redact)
        if not text:
            continue
        times.append((len(lines) + 1, utterance.at))
        block = max(utterance.seq - 1, 0) // BLOCK
        if not blocks or block > blocks[-1][1]:
            blocks.append((len(lines) + 1, block))
        lines += f"{'User' if utterance.by_user else 'Assistant'}: {text}".split("\n")
        lines.append("")
    markdown = "\n".join(lines)
    if len(markdown) > MAX_CHARS:
        cut = markdown.index("\n", len(markdown) - MAX_CHARS) + 1
        lines_before = markdown.count("\n", 0, cut)
        markdown = markdown[cut:]
        times = [(max(1, line - lines_before), at) for line, at in times]
        blocks = [(max(1, line - lines_before), block) for line, block in blocks]
    return Document(
        path_of(conversation),
        MemorySource.SESSIONS,
        markdown,
        stamp_of(conversation),
        conversation.updated_at,
        conversation.key,
        times,
        blocks,
    )


def resume_of(indexed: IndexedDocument | None, conversation: TrackedConversation) -> Resume | None:
    """Returns the position from which to read a conversation; None to read all of it (pure).

    A conversation that lost entries, or exceeds `MAX_CHARS`, is read completely.
    """
    if indexed is None or indexed.error is not None or conversation.size > MAX_CHARS:
        return None
    is_grown = (
        indexed.stamp.ctime <= conversation.entries and indexed.stamp.size <= conversation.size
    )
    return indexed.resume if is_grown else None


def in_blocks(document: Document) -> Iterator[tuple[int, int, Document]]:
    """Yields each block's number, number of lines before it, and document, in order (pure)."""
    lines = document.text.split("\n")
    dated = [line for line, _ in document.times]
    ends = [*(line for line, _ in document.blocks[1:]), len(lines) + 1]
    for (begin, number), end in zip(document.blocks, ends, strict=True):
        if begin < end:
            block_times = document.times[bisect_left(dated, begin) : bisect_left(dated, end)]
            times = [(line - begin + 1, at) for line, at in block_times]
            text = "\n".join(lines[begin - 1 : end - 1])
            yield number, begin - 1, replace(document, text=text, times=times, blocks=())


def sanitised(text: str, redact: Callable[[str], str]) -> str:
    """Returns the text without secrets, recalled passages, and outer white space."""
    return redact(unrecalled(text)).replace("\r\n", "\n").strip()
