"""The transcript files of a folder, with the data of its map of sessions."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry.model.ids import SessionId, SessionKey
from skerry.model.session import Archived
from skerry.sessions import mapped
from skerry.sessions.importing import (
    FormatError,
    ImportedSession,
    TranscriptReport,
    as_owners,
    header,
)
from skerry.store.session_import import IncomingSession

NAME: Final = re.compile(r".{1,255}\.jsonl(?:\.(reset|deleted)\..{1,255})?")
_MAX_HEADER_BYTES: Final = 1 << 20
"""Limit of the first line, which is read separately, in bytes."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The transcripts of a folder and their conversations."""

    rows: Mapping[str, mapped.MappedSession]
    """Rows of the map by session id."""
    keys: Mapping[str, str]
    """Session keys by session id, from the map or derived."""

    @classmethod
    def of(cls, folder: Path) -> "Folder":
        """Reads the folder's map and the first lines of its transcripts."""
        begun = []
        for file, _ in transcripts(folder):
            try:
                with file.open("rb") as lines:
                    session_id, created_at = header(lines.readline(_MAX_HEADER_BYTES))
            except (FormatError, OSError):  # named where it is read
                continue
            ended = mapped.stamp(file.name) if ".jsonl.reset." in file.name else None
            begun.append(mapped.StartedSession(session_id, created_at, ended))
        try:
            rows = mapped.rows((folder / "sessions.json").read_bytes())
        except OSError:
            rows = {}
        return cls(rows, mapped.keys(begun, rows))

    def incoming(
        self,
        key: SessionKey,
        transcript: ImportedSession,
        archived: Archived | None,
        *,
        is_owners: bool,
    ) -> IncomingSession:
        """Returns the session to import."""
        row = self.rows.get(transcript.session_id)
        key_text = self.keys.get(transcript.session_id)
        if row is None and archived is None and key_text is not None:
            # The map names another session as the present one of that conversation.
            same = SessionKey.parse(key_text, key.agent).scope == key.scope
            archived = Archived.RESET if same else None
        return incoming(key, transcript, row, archived, is_owners=is_owners)


def incoming(
    key: SessionKey,
    transcript: ImportedSession,
    row: mapped.MappedSession | None,
    archived: Archived | None,
    *,
    is_owners: bool,
) -> IncomingSession:
    """Returns the session to import; `is_owners` attributes its user messages to the owner."""
    about = row or mapped.MappedSession(str(key))
    return IncomingSession(
        key,
        SessionId(transcript.session_id),
        transcript.created_at,
        (as_owners(transcript) if is_owners else transcript).messages,
        archived,
        about.label,
        about.settings,
        about.tokens,
        about.model,
    )


def transcripts(folder: Path) -> Iterator[tuple[Path, Archived | None]]:
    """Yields the transcript files of a folder, archived first, with the reason of archiving."""
    for file in sorted(files(folder), key=lambda path: path.name.endswith(".jsonl")):
        if not file.is_symlink():
            yield file, archived_as(file)


def archived_as(file: Path) -> Archived | None:
    """Returns the reason why the session was archived, from the name of its file."""
    matched = NAME.fullmatch(file.name)
    return Archived(matched[1]) if matched and matched[1] else None


def files(path: Path) -> Iterator[Path]:
    """Yields the file, or the transcript files of the folder."""
    if not path.is_dir():
        yield path
        return
    # Archived sessions are imported first, the present one last.
    yield from sorted(
        file for file in path.iterdir() if file.is_file() and NAME.fullmatch(file.name)
    )


def broken_lines(report: TranscriptReport) -> Iterator[str]:
    """Yields the unreadable lines of a file, each with the reason."""
    yield from report.broken
    if report.broken_lines > len(report.broken):
        yield f"{report.broken_lines - len(report.broken)} more lines cannot be read"
