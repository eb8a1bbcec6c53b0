"""Initial system prompt of a session: kept unchanged, so that a provider's cache stays valid.

The files of the workspace, the notes of the last days and the date stay as the first run of a
session read them, over restarts too, until it is compacted or ends. What changes meanwhile is told
in the person's turn. What is taken away, or counts for less than it did, goes at once: then all of
it is read anew.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import date
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct, field

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.ids import SessionId, SessionKey
from skerry.store import Store, frozen_prompt
from skerry.workspace.prompt_files import FileText
from skerry.workspace.prompt_sections import Today

MAX_CACHED: Final = 256
"""Conversations of which it is kept in memory; of another it is read from the store."""
_DAY: Final = ""
"""Key of the day among the notices; files have names."""


class _StoredFile(Struct, frozen=True):
    """A file as it is stored, without its text."""

    name: str
    digest: str
    problem: str = ""
    doubt: str = ""


class _StoredPrompt(Struct, frozen=True):
    """Initial prompt of a session, as it is stored."""

    files: list[_StoredFile]
    notes: list[_StoredFile]
    day: date
    zone: str
    told: dict[str, str]


class SessionPrompt(Struct):
    """Initial prompt of a session, for one audience."""

    files: tuple[FileText, ...]
    today: Today
    told: dict[str, str] = field(default_factory=dict)
    """The digest of each file, and the day, that were told since."""
    notes: dict[int, str] = field(default_factory=dict)
    """Notices, by the number of the message that each precedes."""
    marks: object = None
    """Marks of the daily notes when they were last checked."""

    def changed(self, files: Iterable[FileText]) -> dict[str, str]:
        """Returns the files that are not as the session was told last, with their digests."""
        then = {file.name: file.text for file in self.files}
        digests: dict[str, str] = {}
        for file in files:
            last, before = self.told.get(file.name), then.get(file.name)
            if (
                file.doubt
                or file.problem
                or not file.text
                or (last is None and file.text == before)
            ):
                continue
            if (digest := _digest(file.text)) != last:
                digests[file.name] = digest
        return digests

    def outdated(self, files: Iterable[FileText]) -> tuple[str, ...]:
        """Returns the files that are not as the session began with them."""
        then = {file.name: file.text for file in self.files}
        return tuple(file.name for file in files if file.text and file.text != then.get(file.name))

    def new_day(self, day: date) -> bool:
        """Returns whether the session was told of another day last."""
        return str(day) != self.told.get(_DAY, str(self.today.date))

    def mark_announced(self, files: dict[str, str], day: date) -> None:
        """Notes that the session is told of files and of the day."""
        self.told |= files
        if self.new_day(day):
            self.told[_DAY] = str(day)


class SessionPrompts(Struct):
    """Initial prompts of the sessions. Without a store they end with the process."""

    store: Store | None = None
    _prompts: OrderedDict[tuple[SessionKey, str], tuple[SessionId, SessionPrompt]] = field(
        default_factory=OrderedDict
    )
    """Initial prompts by conversation and audience, of the last session."""

    async def find(
        self, key: SessionKey, session_id: SessionId, audience: str
    ) -> SessionPrompt | None:
        """Returns the initial prompt of the session; None if it has none, or is made anew."""
        cached = self._prompts.get((key, audience))
        if cached is not None and cached[0] == session_id:
            self._prompts.move_to_end((key, audience))
            return cached[1]
        if self.store is None or not session_id:
            return None
        stored, notes = await self.store.read(
            lambda reader: (
                frozen_prompt.find(reader, session_id, audience),
                frozen_prompt.notes(reader, session_id),
            )
        )
        begin = None if stored is None else _decoded(*stored)
        if begin is not None:
            begin.notes = notes
            self._remember(key, session_id, audience, begin)
        return begin

    def keep(
        self, key: SessionKey, session_id: SessionId, audience: str, begin: SessionPrompt
    ) -> None:
        """Keeps what the session began with, and what it was told since."""
        self._remember(key, session_id, audience, begin)
        if self.store is not None:
            body, texts = _encoded(begin)
            self.store.ride(
                lambda unit: frozen_prompt.keep(unit, session_id, audience, body, texts)
            )

    def note(self, session_id: SessionId, seq: int, text: str) -> None:
        """Keeps the note that is sent before message `seq` of a session."""
        for other, begin in self._prompts.values():
            if other == session_id:
                begin.notes[seq] = text
        if self.store is not None:
            self.store.ride(lambda unit: frozen_prompt.note(unit, session_id, seq, text))

    def forget(self, session_id: SessionId | None = None) -> None:
        """Lets go of what is in memory, of one session or of all: the store says what holds."""
        for key in [
            key for key, (other, _) in self._prompts.items() if session_id in {None, other}
        ]:
            del self._prompts[key]

    def _remember(
        self, key: SessionKey, session_id: SessionId, audience: str, begin: SessionPrompt
    ) -> None:
        self._prompts[key, audience] = session_id, begin
        while len(self._prompts) > MAX_CACHED:
            self._prompts.popitem(last=False)


def withdrawn(then: Sequence[FileText], now: Iterable[FileText]) -> bool:
    """Returns whether a file is gone or empty, or counts for something else than it did."""
    present = {file.name: file for file in now}
    for file in then:
        same = present.get(file.name)
        if same is None or (same.doubt, same.problem) != (file.doubt, file.problem):
            return True
        if file.text and not same.text:
            return True
    return False


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _encoded(begin: SessionPrompt) -> tuple[bytes, dict[str, str]]:
    texts: dict[str, str] = {}

    def stored(files: Iterable[FileText]) -> list[_StoredFile]:
        records = []
        for file in files:
            digest = _digest(file.text)
            texts[digest] = file.text
            records.append(_StoredFile(file.name, digest, file.problem, file.doubt))
        return records

    today = begin.today
    body = _StoredPrompt(
        stored(begin.files), stored(today.notes), today.date, today.zone, dict(begin.told)
    )
    return msgspec.json.encode(body), texts


def _decoded(body: bytes, texts: dict[str, str]) -> SessionPrompt | None:
    """Decodes the stored prompt; None if a part of it is missing or unreadable."""

    def read(files: Iterable[_StoredFile]) -> tuple[FileText, ...]:
        return tuple(
            FileText(file.name, texts[file.digest], file.problem, file.doubt) for file in files
        )

    try:
        decoded = msgspec.json.decode(body, type=_StoredPrompt)
        today = Today(decoded.day, decoded.zone, read(decoded.notes))
        return SessionPrompt(read(decoded.files), today, decoded.told)
    except (KeyError, *UNREADABLE):
        return None
