"""Runs that the gateway starts by itself: schedules, heartbeats, webhooks, sub-agents.

`start` accepts a run and notes in the same unit which part of the gateway is owed its end.
`collect` gives that part each end once, also where the gateway was killed in between: the part
answers with the rows that it writes, and they are written in the unit that settles the debt.
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
from skerry.runtime.dispatcher import Dispatch, no_more
from skerry.store import Store, Unit, internal_runs, outbox, runs
from skerry.store.internal_runs import OwedRun

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""Seconds between two tries of a store that fails."""
KEPT_DAYS: Final = 30
"""Days for which the row of a settled run is kept; a repeated id starts nothing meanwhile."""
_DAY_MS: Final = 86_400_000


class EndedInternalRun(Struct, frozen=True):
    """An internal run that has ended."""

    run_id: RunId
    subject: bytes
    """Bytes that the owner gave to `start`."""
    result: RunResult | None
    """None where the store has lost the run."""


class RunSettlement(Struct, frozen=True):
    """Effect of the end of a run."""

    write: Callable[[Unit], object] = no_more
    """Called in the unit that settles the run. It may run several times and changes only rows."""
    after: Callable[[], object] | None = None
    """Called after the COMMIT."""


Settle = Callable[[EndedInternalRun], Awaitable[RunSettlement]]


def deliver(unit: Unit, run_id: RunId, to: ReplyTo, texts: Sequence[str], now: int) -> None:
    """Adds a message to the outbox, behind those that the run has there already.

    Args:
        unit: The unit that settles the run.
        run_id: The run that it is about.
        to: Where it goes; wake its sender after the COMMIT.
        texts: Its parts, as `Senders.parts` cuts them.
        now: Milliseconds since 1970.

    """
    outbox.add(unit, run_id, outbox.next_block(unit, run_id), to, texts, now)


class InternalRuns(Struct):
    """Starts internal runs and hands over their ends. One object serves a gateway."""

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
        beside: Callable[[Unit], object] = no_more,
    ) -> Admission:
        """Accepts the run; `collect` of the owner is given its end.

        Args:
            request: The run. Its id names its cause, so that one cause starts one run; its purpose
                is not `message`, so that its text is no command.
            owner: Name of the part that takes the end.
            subject: Bytes for the owner, kept until the end is taken.
            beside: Called in the unit that accepts the run, also where its id is known already.

        Raises:
            BusyError: the gateway stops.
            UnknownAgentError: the key names no configured agent.
            StoreFailedError: nothing was accepted.

        """
        now = self.now_ms()

        def accept(unit: Unit) -> None:
            internal_runs.add(unit, request.run_id, owner, subject, now)
            beside(unit)

        admission = await self.dispatch.submit(request, accept)
        self.dispatch.reach("internal.started")
        self._event(owner).set()
        return admission

    async def finish(self, run_id: RunId, timeout: float | None = None) -> RunResult | None:  # noqa: ASYNC109 - as the port has it
        """Returns the result of the run; None after `timeout` seconds, or for an unknown id."""
        return await self.dispatch.wait(run_id, timeout)

    async def collect(self, owner: str, settle: Settle) -> None:
        """Gives the owner the end of each of its runs, until cancelled.

        An exception of `settle` leaves the run for the next start of the gateway; the other runs
        are not affected.
        """
        begun: set[RunId] = set()
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed[owner] = changed = anyio.Event()
                try:
                    await self._take_up(owner, settle, begun, tasks)
                except StateError as error:
                    logger.warning("the ends of %s runs wait for the store: %s", owner, error)
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
            result = await self._result(run.run_id)
            if result is None and await self._is_open(run.run_id):
                return  # nothing executes it in this process; the next start takes it up
            self.dispatch.reach("internal.ended")
            settlement = await settle(EndedInternalRun(run.run_id, run.subject, result))
            await self._write(run.run_id, settlement)
        except Exception:
            # One end that its owner cannot take must not keep the owner from the others.
            logger.exception("the end of the %s run %s was not taken", owner, run.run_id)
            return
        self.dispatch.reach("internal.settled")
        begun.discard(run.run_id)
        if settlement.after is not None:
            settlement.after()

    async def _result(self, run_id: RunId) -> RunResult | None:
        """Returns how the run ended, as soon as it has; None where the store does not have it."""
        while True:
            try:
                return await self.dispatch.wait(run_id, None)
            except StateError as error:
                logger.warning("the end of run %s waits for the store: %s", run_id, error)
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
                logger.warning("the end of run %s waits for the store: %s", run_id, error)
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    def _event(self, owner: str) -> anyio.Event:
        return self._changed.setdefault(owner, anyio.Event())
