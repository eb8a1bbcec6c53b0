"""Initial system prompt of a session: kept unchanged, so that a provider's cache stays valid.

The files of the workspace, the notes of the last days and the date stay as the first run of a
session read them, also after a restart, until the session is compacted or ends. Later changes are
announced in the person's turn. A file that is removed, or loses the owner's authority, makes the
whole prompt invalid at once: then everything is read again.
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
"""Limit on the prompts kept in memory; others are read from the store."""
_DAY: Final = ""
"""Key of the day among the notices; files have names."""


class _StoredFile(Struct, frozen=True):
    """The stored form of a file, without its text."""

    name: str
    digest: str
    problem: str = ""
    doubt: str = ""


class _StoredPrompt(Struct, frozen=True):
    """The stored form of a session's initial prompt."""

    files: list[_StoredFile]
    notes: list[_StoredFile]
    day: date
    zone: str
    announced: dict[str, str] = field(name="told")


class SessionPrompt(Struct):
    """Initial prompt of a session, for one audience."""

    files: tuple[FileText, ...]
    today: Today
    announced: dict[str, str] = field(default_factory=dict)
    """The digest of each file, and the day, that were announced since."""
    notes: dict[int, str] = field(default_factory=dict)
    """Notices, by the number of the message that each precedes."""
    marks: object = None
    """Marks of the daily notes when they were last checked."""

    def changed(self, files: Iterable[FileText]) -> dict[str, str]:
        """Returns the digests of the files that changed since they were last announced, by name."""
        then = {file.name: file.text for file in self.files}
        digests: dict[str, str] = {}
        for file in files:
            last, before = self.announced.get(file.name), then.get(file.name)
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
        """Returns the names of the files that changed since the session began."""
        then = {file.name: file.text for file in self.files}
        return tuple(file.name for file in files if file.text and file.text != then.get(file.name))

    def new_day(self, day: date) -> bool:
        """Returns whether `day` differs from the day that was last announced."""
        return str(day) != self.announced.get(_DAY, str(self.today.date))

    def mark_announced(self, files: dict[str, str], day: date) -> None:
        """Records that files and the day are announced to the session."""
        self.announced |= files
        if self.new_day(day):
            self.announced[_DAY] = str(day)


class SessionPrompts(Struct):
    """Initial prompts of the sessions. Without a store they are lost when the process ends."""

    store: Store | None = None
    _prompts: OrderedDict[tuple[SessionKey, str], tuple[SessionId, SessionPrompt]] = field(
        default_factory=OrderedDict
    )
    """Initial prompt of the last session, by conversation and audience."""

    async def find(
        self, key: SessionKey, session_id: SessionId, audience: str
    ) -> SessionPrompt | None:
        """Returns the initial prompt of the session; None if it is not stored or not readable."""
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
        """Stores the initial prompt of the session, and the changes announced since."""
        self._remember(key, session_id, audience, begin)
        if self.store is not None:
            body, texts = _encoded(begin)
            self.store.ride(
                lambda unit: frozen_prompt.keep(unit, session_id, audience, body, texts)
            )

    def note(self, session_id: SessionId, seq: int, text: str) -> None:
        """Stores the note that is sent before message `seq` of a session."""
        for cached_id, begin in self._prompts.values():
            if cached_id == session_id:
                begin.notes[seq] = text
        if self.store is not None:
            self.store.ride(lambda unit: frozen_prompt.note(unit, session_id, seq, text))

    def forget(self, session_id: SessionId | None = None) -> None:
        """Drops the prompts of one session, or of all, from memory; the store keeps its own."""
        for key in [
            key for key, (cached_id, _) in self._prompts.items() if session_id in {None, cached_id}
        ]:
            del self._prompts[key]

    def _remember(
        self, key: SessionKey, session_id: SessionId, audience: str, begin: SessionPrompt
    ) -> None:
        self._prompts[key, audience] = session_id, begin
        while len(self._prompts) > MAX_CACHED:
            self._prompts.popitem(last=False)


def withdrawn(then: Sequence[FileText], now: Iterable[FileText]) -> bool:
    """Returns whether a file was removed or emptied, or its doubt or problem changed."""
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
        stored(begin.files), stored(today.notes), today.date, today.zone, dict(begin.announced)
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
        return SessionPrompt(read(decoded.files), today, decoded.announced)
    except (KeyError, *UNREADABLE):
        return None
