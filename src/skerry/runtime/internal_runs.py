"""Runs that the gateway starts: schedules, heartbeats, webhooks, sub-agents.

`start` accepts a run and records in the same unit its owner, the part of the gateway that needs its
result. `collect` passes each result to the owner once, also after a crash: the owner returns the
rows to write, and they are written in the unit that settles the run.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from skerry.model.errors import StateError
from skerry.model.ids import RunId
from skerry.model.inbound import ReplyTo
from skerry.model.run import Admission, RunRequest, RunResult
from skerry.runtime.delivery import Senders
from skerry.runtime.dispatcher import Dispatch, no_write
from skerry.store import Store, Unit, internal_runs, outbox, runs
from skerry.store.internal_runs import OwedRun

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts when the store fails."""
KEPT_DAYS: Final = 30
"""Days for which the row of a settled run is kept; a repeated id starts no run meanwhile."""
_DAY_MS: Final = 86_400_000


class EndedInternalRun(Struct, frozen=True):
    """An internal run that has ended."""

    run_id: RunId
    subject: bytes
    """Bytes that the owner passed to `start`."""
    result: RunResult | None
    """None if the run is missing in the store."""


class RunSettlement(Struct, frozen=True):
    """Effect of the end of a run."""

    write: Callable[[Unit], object] = no_write
    """Called in the unit that settles the run. It may run several times and changes only rows."""
    after: Callable[[], object] | None = None
    """Called after the COMMIT."""


Settle = Callable[[EndedInternalRun], Awaitable[RunSettlement]]


def deliver(unit: Unit, run_id: RunId, to: ReplyTo, texts: Sequence[str], now: int) -> None:
    """Adds a message to the outbox, after the run's earlier messages.

    Args:
        unit: The unit that settles the run.
        run_id: The run that the message is about.
        to: The target; wake its sender after the COMMIT.
        texts: The parts of the message, as `Senders.parts` cuts them.
        now: Milliseconds since 1970.

    """
    outbox.add(unit, run_id, outbox.next_block(unit, run_id), to, texts, now)


class InternalRuns(Struct):
    """Starts internal runs and passes their results to the owners. A gateway has one."""

    dispatch: Dispatch
    _changed: dict[str, anyio.Event] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        """Returns the store of the gateway."""
        return self.dispatch.runtime.store

    @property
    def delivery(self) -> Senders:
        """Returns the senders of the platforms."""
        return self.dispatch.runtime.delivery

    def now_ms(self) -> int:
        """Returns the time, in milliseconds since 1970."""
        return self.dispatch.runtime.clock.now_ms()

    async def start(
        self,
        request: RunRequest,
        owner: str,
        subject: bytes = b"",
        extra_write: Callable[[Unit], object] = no_write,
    ) -> Admission:
        """Accepts the run; its result is passed to `collect` of the owner.

        Args:
            request: The run. Its id is derived from its cause, so that one cause starts one run;
                its purpose is not `message`, so that its text is no command.
            owner: Name of the part of the gateway that gets the result.
            subject: Bytes for the owner, kept until the run is settled.
            extra_write: Called in the unit that accepts the run, also if its id is not new.

        Raises:
            BusyError: the gateway is stopping.
            UnknownAgentError: the key names no configured agent.
            StoreFailedError: nothing was accepted.

        """
        now = self.now_ms()

        def accept(unit: Unit) -> None:
            internal_runs.add(unit, request.run_id, owner, subject, now)
            extra_write(unit)

        admission = await self.dispatch.submit(request, accept)
        self.dispatch.reach("internal.started")
        self._event(owner).set()
        return admission

    async def finish(self, run_id: RunId, timeout: float | None = None) -> RunResult | None:  # noqa: ASYNC109 - as the port has it
        """Returns the result of the run; None after `timeout` seconds, or for an unknown id."""
        return await self.dispatch.wait(run_id, timeout)

    async def collect(self, owner: str, settle: Settle) -> None:
        """Passes the result of each run to its owner, until cancelled.

        If `settle` raises a `StateError`, it is called again. After any other error, the run is
        settled after the next start of the gateway; the other runs are not affected.
        """
        begun: set[RunId] = set()
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed[owner] = changed = anyio.Event()
                try:
                    await self._take_up(owner, settle, begun, tasks)
                except StateError as error:
                    logger.warning(
                        "results of %s runs: retrying after a store error: %s", owner, error
                    )
                    await anyio.sleep(RETRY_SECONDS)
                    continue
                await changed.wait()

    async def _take_up(
        self, owner: str, settle: Settle, begun: set[RunId], tasks: TaskGroup
    ) -> None:
        for run in await self.store.read(lambda reader: internal_runs.owed(reader, owner)):
            if run.run_id not in begun:
                begun.add(run.run_id)
                tasks.start_soon(self._settle, owner, run, settle, begun)

    async def _settle(self, owner: str, run: OwedRun, settle: Settle, begun: set[RunId]) -> None:
        try:
            settlement = await self._settlement(run, settle)
            if settlement is None:
                return  # no task of this process executes it; the next start resumes it
            await self._write(run.run_id, settlement)
        except Exception:
            # One run that its owner cannot settle must not stop the owner's other runs.
            logger.exception("the %s run %s could not be settled", owner, run.run_id)
            return
        self.dispatch.reach("internal.settled")
        begun.discard(run.run_id)
        if settlement.after is not None:
            settlement.after()

    async def _settlement(self, run: OwedRun, settle: Settle) -> RunSettlement | None:
        """Returns the rows of the owner when the run has ended; None for an open run.

        Retries after a store error, which must not leave the run unsettled until the next start.
        """
        while True:
            try:
                result = await self.dispatch.wait(run.run_id, None)
                if result is None and await self._is_open(run.run_id):
                    return None
                self.dispatch.reach("internal.ended")
                return await settle(EndedInternalRun(run.run_id, run.subject, result))
            except StateError as error:
                logger.warning("run %s: retrying after a store error: %s", run.run_id, error)
            await anyio.sleep(RETRY_SECONDS)

    async def _is_open(self, run_id: RunId) -> bool:
        stored = await self.store.read(lambda reader: runs.find(reader, run_id))
        return isinstance(stored, runs.OpenRun)

    async def _write(self, run_id: RunId, settlement: RunSettlement) -> None:
        now = self.now_ms()

        def write(unit: Unit) -> None:
            if internal_runs.settle(unit, run_id, now):
                settlement.write(unit)
            internal_runs.prune(unit, now - KEPT_DAYS * _DAY_MS)

        while True:
            try:
                await self.store.write(write)
            except StateError as error:
                logger.warning("run %s: retrying after a store error: %s", run_id, error)
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    def _event(self, owner: str) -> anyio.Event:
        return self._changed.setdefault(owner, anyio.Event())
