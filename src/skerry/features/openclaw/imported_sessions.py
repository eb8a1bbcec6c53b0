"""Imports the sessions of an OpenClaw home from transcript files and databases."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from skerry.app.build import open_state
from skerry.cli.render import notice
from skerry.cli.transcript_files import Folder, incoming, transcripts
from skerry.config.root import Config
from skerry.features.openclaw.home import agents, inside
from skerry.features.openclaw.report import Report
from skerry.infra.clock import SystemClock
from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import AgentId, SessionKey
from skerry.model.session import Archived
from skerry.sessions import mapped
from skerry.sessions.importing import FormatError, read
from skerry.store import openclaw_databases as database
from skerry.store.session_import import IncomingSession, take

REPAIR: Final = "repair it with OpenClaw, or by `.recover` of sqlite3, and import again"
_OUTSIDE: Final = "the file is a link out of the home"
_PROGRESS: Final = 25


@dataclass(slots=True)
class Arriving:
    """Sessions of a home; iterate once. Archived sessions precede the present ones."""

    home: Path
    config: Config
    report: Report
    own_keys: Collection[str]
    """Keys of further conversations whose user messages are the owner's, beside each main one."""
    _unplaced: int = 0
    _skipped: Counter[str] = field(default_factory=Counter)

    async def bring(self) -> None:
        """Imports all of them, or counts them in a preview."""
        arriving = list(self._sessions())
        self._name(arriving)
        if not self.report.applied:
            for _ in arriving:
                self.report.count("can be imported")
            return
        async with open_state(self.config) as (store, mirror):
            for number, session in enumerate(arriving, 1):
                now = SystemClock().now_ms()
                self.report.count(str(await store.write(partial(take, incoming=session, now=now))))
                if number % _PROGRESS == 0:
                    notice(f"{number} of {len(arriving)} sessions")
            await mirror.flush(store)

    def _name(self, arriving: Collection[IncomingSession]) -> None:
        keys = {str(session.key) for session in arriving}
        main_keys = {str(SessionKey.main(agent)) for agent in self.config.agents.ids}
        self.report.owners += sorted(keys & (main_keys | self._named()))
        for key in sorted(self._named() - keys):
            self.report.skip(f"--mine {key}", "the home has no session of this conversation")
        if self._unplaced:
            reason = "the session map names no conversation for them; each becomes imported:ID"
            self.report.skip(f"the conversation of {self._unplaced} sessions", reason)
        for name, number in sorted(self._skipped.items()):
            self.report.left_out[f"setting {name}"] += number

    def _named(self) -> set[str]:
        default = self.config.agents.default_id
        return {str(SessionKey.parse(key, default)) for key in self.own_keys}

    def _is_mine(self, key: SessionKey) -> bool:
        return key == SessionKey.main(key.agent) or str(key) in self._named()

    @staticmethod
    def _key(agent: AgentId, text: str) -> SessionKey:
        return SessionKey(agent, SessionKey.parse(text, agent).scope)

    def _sessions(self) -> Iterator[IncomingSession]:
        for agent, folder in agents(self.home):
            if agent not in self.config.agents.ids:
                folder_name = f"agents/{folder.name}"
                self.report.skip(folder_name, "the configuration has no such agent")
                continue
            for part in ("sessions", "agent"):
                if not inside(self.home, folder / part):
                    self.report.skip(str(folder / part), _OUTSIDE)
            if inside(self.home, folder / "sessions"):
                yield from self._files(agent, folder / "sessions")
            file = folder / "agent" / database.FILE
            if file.is_file() and not file.is_symlink() and inside(self.home, file):
                yield from self._stored(agent, file)

    def _files(self, agent: AgentId, folder: Path) -> Iterator[IncomingSession]:
        if not folder.is_dir():
            return
        mirror = Folder.of(folder)
        for row in mirror.rows.values():
            self._skipped.update(row.ignored)
        for file, archived in transcripts(folder):
            try:
                with file.open("rb") as lines:
                    transcript = read(lines)
                self._unplaced += transcript.session_id not in mirror.keys
                key = self._key(
                    agent,
                    mirror.keys.get(transcript.session_id, f"imported:{transcript.session_id}"),
                )
                self.report.leave_out(str(file), transcript)
                yield mirror.incoming(key, transcript, archived, is_owners=self._is_mine(key))
            except (FormatError, OSError, InvalidSessionKeyError) as error:
                self.report.skip(str(file), f"{error}")

    def _stored(self, agent: AgentId, file: Path) -> Iterator[IncomingSession]:
        try:
            with database.opened(file) as opened:
                for session in database.sessions(opened):
                    if transcript := self._incoming_session(agent, session):
                        yield transcript
        except OSError as error:
            self.report.skip(str(file), f"the file cannot be read: {error.strerror}")
        except sqlite3.Error as error:
            self.report.skip(str(file), f"the file cannot be read: {error}; {REPAIR}")

    def _incoming_session(
        self, agent: AgentId, session: database.ForeignSession
    ) -> IncomingSession | None:
        session_name = f"session {session.session_id}"
        if session.damage:
            self.report.skip(session_name, f"{session.damage}; {REPAIR}")
            return None
        if session.packed:
            reason = f"{session.packed} of its lines are compressed; export it with OpenClaw first"
            self.report.skip(session_name, reason)
            return None
        try:
            transcript = read(session.lines)
            key = self._key(agent, session.key)
        except (FormatError, InvalidSessionKeyError) as error:
            self.report.skip(session_name, str(error))
            return None
        self.report.leave_out(session_name, transcript)
        row = mapped.row(session.key, session.about) if session.present else None
        if row is not None:
            self._skipped.update(row.ignored)
        archived = None if session.present else Archived.RESET
        return incoming(key, transcript, row, archived, is_owners=self._is_mine(key))
