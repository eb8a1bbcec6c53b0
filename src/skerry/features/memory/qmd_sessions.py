"""Exports an agent's conversations as Markdown files for QMD, and deletes old ones."""

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

    A file is rewritten when its conversation grew, was truncated or redacted, and deleted when its
    conversation was deleted or is older than `retention_days`. `redact` removes secrets from the
    text. Source: seed 003, "Session Transcript Indexing".
    """

    agent: AgentId
    transcripts: TranscriptSource
    clock: Clock
    redact: Callable[[str], str]
    retention_days: Callable[[], int] = lambda: 30
    _stamps: dict[str, Stamp] = field(default_factory=dict)
    """Stamps of the files written since the start; other files are rewritten."""

    async def __call__(self, folder: Path) -> Mapping[str, str]:
        """Updates the folder; returns the session keys by file name.

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
            if self._stamps.get(name) == stamp and (folder / name).exists():
                continue
            utterances = await self.transcripts.utterances(conversation)
            text = document(conversation, utterances, self.redact).text
            await anyio.to_thread.run_sync(_write, folder / name, text, conversation.updated_at)
            self._stamps[name] = stamp
        await anyio.to_thread.run_sync(_prune, folder, frozenset(keys))
        return keys


def file_name(conversation: TrackedConversation) -> str:
    """Returns `<sessionId>.md`, or `<sessionId>-topic-<id>.md` for a topic or thread."""
    topic = _TOPIC.search(conversation.key)
    suffix = f"-topic-{_plain(topic[1])}" if topic else ""
    return f"{_plain(conversation.session_id)}{suffix}.md"


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
