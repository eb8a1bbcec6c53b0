"""Follows each sub-agent to its end: announces the report to its parent, then archives it.

The announcement is a message that starts a turn in the parent's session. It is accepted in the unit
that stores the end in the registry, under an id made of the sub-agent's run, so that it is accepted
once even if the process is killed.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from skerry.config.root import Config
from skerry.features.subagents import tables
from skerry.features.subagents.report import Report, announcement, status_of
from skerry.features.subagents.tables import Subagent, SubagentOutcome, SubagentState
from skerry.infra.clock import Clock
from skerry.model.errors import BusyError, SkerryError, StateError
from skerry.model.message import AssistantMessage, Message
from skerry.model.run import BY_PARENT, RunResult, StopReason
from skerry.policy.injection import scan
from skerry.runtime.conversation import taint, worst
from skerry.runtime.dispatcher import Dispatch
from skerry.store import Reader, Store, Unit, archive, sessions
from skerry.store.mirror import transcript_file

logger = logging.getLogger(__name__)

KILLED: Final = "subagents kill"
"""Name of the stop of a sub-agent by a person's command."""
SILENT: Final = frozenset({BY_PARENT, KILLED})
"""Names of stops that need no announcement."""
_MINUTE_MS: Final = 60_000
_MAX_SLEEP_SECONDS: Final = 60.0
"""Seconds after which the clock is read again, because it may have been set."""
_NESTED_SECONDS: Final = 0.2
"""Seconds between two checks of the sub-agents of a sub-agent."""


class Watch(Struct, frozen=True):
    """Parts of the gateway with which sub-agents are followed."""

    dispatcher: Dispatch
    """Dispatcher that accepts the announcements."""

    @property
    def config(self) -> Callable[[], Config]:
        """Returns the function that returns the present configuration."""
        return self.dispatcher.runtime.config

    @property
    def store(self) -> Store:
        """Returns the store of the gateway."""
        return self.dispatcher.runtime.store

    @property
    def clock(self) -> Clock:
        """Returns the clock of the gateway."""
        return self.dispatcher.runtime.clock

    async def follow(self, run_id: str) -> None:
        """Announces the end of a sub-agent, and archives its session at the due time."""
        subagent = await self.store.read(lambda reader: tables.get(reader, run_id))
        if subagent is None:
            return
        if subagent.state is SubagentState.RUNNING:
            result = await self.dispatcher.wait(subagent.run_id, None)
            await self._descendants(subagent)
            await self._end(subagent, result)
        await self._archive(run_id)

    async def _descendants(self, subagent: Subagent) -> None:
        """Waits until the sub-agents of a sub-agent have reported and it has read their reports."""
        key = subagent.session_key
        while True:
            if not await self.store.read(lambda reader: tables.running(reader, key)):
                break
            await anyio.sleep(_NESTED_SECONDS)
        for run_id in self.dispatcher.active(subagent.key):
            await self.dispatcher.wait(run_id, None)

    async def _end(self, subagent: Subagent, result: RunResult | None) -> None:
        """Stores the end, with the announcement unless the sub-agent was stopped on purpose."""
        now, config = self.clock.now_ms(), self.config()
        status = status_of(result)
        keep = config.agents.defaults.subagents.archive_after_minutes * _MINUTE_MS
        archive_at = now + keep if keep else 0
        if subagent.cleanup == "delete":
            archive_at = now

        def end(unit: Unit) -> None:
            tables.end(unit, subagent.run_id, status, now, archive_at)

        if result is not None and _is_silent(result):
            await self.store.write(end)
            return
        report = await self.report(subagent, result, status)
        self.dispatcher.reach("subagent.before-announce")
        try:
            await self.dispatcher.submit(announcement(report), end)
        except (BusyError, StateError):
            raise  # the supervisor restarts this service
        except SkerryError:
            logger.exception("the end of the sub-agent %s cannot be announced", subagent.run_id)
            await self.store.write(end)
        self.dispatcher.reach("subagent.announced")

    async def report(
        self, subagent: Subagent, result: RunResult | None, status: SubagentOutcome
    ) -> Report:
        """Returns the parts of the announcement of an ended sub-agent."""
        messages, path = await self.store.read(partial(_session_messages, subagent, self.config()))
        texts = (
            message.text
            for message in reversed(messages)
            if isinstance(message, AssistantMessage) and message.text.strip()
        )
        text = next(texts, "").strip()
        scanned = await anyio.to_thread.run_sync(scan, text)
        foreign = taint(messages)
        origin = worst(foreign) if foreign else None
        return Report(subagent, status, text, result, path, scanned, origin)

    async def _archive(self, run_id: str) -> None:
        """Archives the session at the due time; a session that was used again is kept longer."""
        while True:
            subagent = await self.store.read(lambda reader: tables.get(reader, run_id))
            if (
                subagent is None
                or subagent.state is not SubagentState.ENDED
                or not subagent.archive_at
            ):
                return
            remaining = (subagent.archive_at - self.clock.now_ms()) / 1000
            if remaining > 0:
                await anyio.sleep(min(remaining, _MAX_SLEEP_SECONDS))
                continue
            if await self._postponed(subagent):
                continue
            await self.archive(subagent)
            return

    async def _postponed(self, subagent: Subagent) -> bool:
        """Postpones the archive when the session received a message after the end."""
        key = subagent.session_key
        session = await self.store.read(lambda reader: sessions.find(reader, key))
        minutes = self.config().agents.defaults.subagents.archive_after_minutes
        if session is None or session.updated_at <= subagent.ended_at:
            return False
        postponed_to = session.updated_at + minutes * _MINUTE_MS
        if postponed_to <= self.clock.now_ms():
            return False
        await self.store.write(lambda unit: tables.postpone(unit, subagent.run_id, postponed_to))
        return True

    async def archive(self, subagent: Subagent) -> None:
        """Archives the session of a sub-agent: its transcript is renamed `.deleted.<time>`."""
        now = self.clock.now_ms()

        def write(unit: Unit) -> None:
            archive.delete(unit, subagent.key, now)
            tables.archived(unit, subagent.run_id, now)

        await self.dispatcher.run_exclusive(subagent.key, partial(self.store.write, write))
        self.dispatcher.reach("subagent.archived")


def _is_silent(result: RunResult) -> bool:
    return result.stop_reason is StopReason.ABORTED and result.aborted_by in SILENT


def _session_messages(
    subagent: Subagent, config: Config, reader: Reader
) -> tuple[list[Message], str]:
    """Returns the messages of a sub-agent's session, and the path of its transcript."""
    session = sessions.get(reader, subagent.session_id)
    if session is None:
        return [], ""
    entries = sessions.entries(reader, subagent.session_id, limit=-1)
    path = transcript_file(config.state_dir / "agents", session)
    return [entry.message for entry in entries], str(path)
