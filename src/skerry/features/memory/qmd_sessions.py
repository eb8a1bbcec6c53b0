"""Writes an agent's conversations as Markdown files for QMD, and removes those that are too old."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio.to_thread

from skerry.features.memory.documents import Stamp
from skerry.features.memory.transcript_markdown import document, stamp_of
from skerry.infra.atomic import write_atomic
from skerry.infra.clock import DAY_MS, Clock
from skerry.model.ids import AgentId
from skerry.model.memory import TrackedConversation
from skerry.ports.memory import TranscriptSource

_TOPIC: Final = re.compile(r":(?:topic|thread):([^:]+)")


@dataclass(slots=True)
class SessionExport:
    """Keeps a folder equal to the conversations of the last days. A `memory.qmd.Export`.

    A file is written again when its conversation grew, was taken back or redacted; one whose
    conversation was deleted, or is older than `retention_days`, is removed. What is written has no
    secrets: `redact` takes them out. Source: seed 003, "Session Transcript Indexing".
    """

    agent: AgentId
    transcripts: TranscriptSource
    clock: Clock
    redact: Callable[[str], str]
    retention_days: Callable[[], int] = lambda: 30
    _written: dict[str, Stamp] = field(default_factory=dict)
    """Stamp from which each file was written since this started; others are written again."""

    async def __call__(self, folder: Path) -> Mapping[str, str]:
        """Brings the folder up to date; gives the key of each conversation by its file's name.

        Raises:
            StateError: the conversations cannot be read.
            OSError: the folder cannot be written.
        """
        since = self.clock.now_ms() - self.retention_days() * DAY_MS
        keys: dict[str, str] = {}
        for conversation in await self.transcripts.conversations(self.agent, since):
            name = file_name(conversation)
            keys[name] = conversation.key
            stamp = stamp_of(conversation)
            if self._written.get(name) == stamp and (folder / name).exists():
                continue
            utterances = await self.transcripts.utterances(conversation)
            text = document(conversation, utterances, self.redact).text
            await anyio.to_thread.run_sync(_write, folder / name, text, conversation.updated_at)
            self._written[name] = stamp
        await anyio.to_thread.run_sync(_prune, folder, frozenset(keys))
        return keys


def file_name(conversation: TrackedConversation) -> str:
    """Returns `<sessionId>.md`, or `<sessionId>-topic-<id>.md` of a conversation about a topic."""
    topic = _TOPIC.search(conversation.key)
    behind = f"-topic-{_plain(topic[1])}" if topic else ""
    return f"{_plain(conversation.session_id)}{behind}.md"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:100]


def _write(file: Path, text: str, at: int) -> None:
    """Writes the file with the date of the conversation."""
    write_atomic(file, text.encode())
    os.utime(file, (at / 1000, at / 1000))


def _prune(folder: Path, names: frozenset[str]) -> None:
    for file in folder.glob("*.md"):
        if file.name not in names:
            file.unlink(missing_ok=True)
