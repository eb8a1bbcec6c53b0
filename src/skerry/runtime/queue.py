"""Queue of runs: each has a place in its session's lane, and a mode.

A place is taken before the run is stored, so that messages keep their order. What the mode means is
settled once the run is stored: it may leave its place for the mailbox of the run that is on, stop
that run, or make others leave. A turn takes up all that belongs to it at that moment.
"""

import asyncio
import math
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Final

import anyio
from msgspec import Struct, field

from skerry.commands.table import Command
from skerry.hooks.events import WEBCHAT
from skerry.lanes.active_runs import ActiveRun, batch, excess, line
from skerry.lanes.lanes import Lanes
from skerry.model.ids import RunId, SessionKey
from skerry.model.queue import DropPolicy, QueueMode, QueueRules
from skerry.model.run import RunRequest
from skerry.ports.dispatch import QueueReport, SessionQueue
from skerry.runtime import out_of_band
from skerry.runtime.run import Run
from skerry.runtime.run_context import Runtime

STRETCH: Final = 10
"""Whoever never stops writing is answered after so many times the debounce."""
INTERRUPT: Final = "interrupt"


class Turn(Struct, eq=False):
    """The place of a run in its lane; the job that the lane does."""

    queue: "Queue"
    run: ActiveRun
    begun: float = -math.inf
    """The event loop's time when it could have begun for the first time."""

    def delay(self) -> float:
        """Returns the seconds in which others may still come that belong to it."""
        quiet = self.run.quiet_seconds
        if not quiet:
            return 0.0
        now = asyncio.get_running_loop().time()
        if self.begun == -math.inf:
            self.begun = now
        runs = line(self.run, self.queue.behind(self.run))
        last = max(run.arrived for run in runs)
        return min(last + quiet, self.begun + STRETCH * quiet) - now

    async def __call__(self) -> None:
        """Does the run, with all that belongs to it."""
        await self.queue.take_up(self.run)


class Queue(Struct):
    """Decides what each run does that finds its session at work."""

    runtime: Runtime
    lanes: Lanes
    _notified: set[SessionKey] = field(default_factory=set)
    """Sessions whose people were told that messages are dropped."""

    def put(self, run: ActiveRun) -> None:
        """Gives a run that was just accepted a place at the end of its lane."""
        self._submit(run)

    def put_back(self, run: ActiveRun) -> None:
        """Gives a run that left its lane a place before all that were accepted after it."""
        if run.turn is None:
            earlier = takewhile(lambda waiting: waiting.serial < run.serial, self.behind(run))
            self._submit(run, sum(1 for _ in earlier))

    def _submit(self, run: ActiveRun, index: int | None = None) -> None:
        run.turn = turn = Turn(self, run)
        self.lanes.submit(str(run.request.key), turn, index=index, delay=turn.delay)

    def forget(self, run: ActiveRun) -> None:
        """Takes the place of a run back that does not exist after all."""
        self._leave(run)

    async def arrange(self, run: ActiveRun) -> None:
        """Does what the mode says of a stored run that found its session at work."""
        rules = run.rules
        if rules is None:
            return
        command = self.runtime.commands.command_in(run.request)
        if command is not None and command[0].at_once:
            self._aside(run, *command)
        elif rules.mode in {QueueMode.STEER, QueueMode.STEER_BACKLOG}:
            self._steer(run.request.key)
        elif rules.mode is QueueMode.INTERRUPT:
            self._interrupt(run)
        if run.turn is not None and rules.mode is not QueueMode.OWN:
            await self._make_room(run.request.key, rules)

    def _aside(self, run: ActiveRun, command: Command, arguments: str) -> None:
        """Answers the command beside the run that is on, unless its turn has come already."""
        key = str(run.request.key)
        if not self._leave(run):
            return
        work = partial(out_of_band.answer_apart, self.runtime, run, command, arguments)
        self.lanes.submit(f"{key}:aside:{run.request.run_id}", work, counted=False)

    def take_back(self, run: ActiveRun) -> bool:
        """Ends a stopped run now that still waits, as if it had never arrived.

        Returns false if its message is in the transcript, or is about to be.
        """
        key = run.request.key
        steers = any(run in host.steering for host in self.runtime.running.of(key))
        if run.entry or steers or not run.admitted.is_set() or not self._leave(run):
            return False
        work = partial(out_of_band.end_unsaid, self.runtime, run)
        self.lanes.submit(f"{key}:aside:{run.request.run_id}", work, counted=False)
        return True

    def stop(self, key: SessionKey, by: str, *, before: RunId | None = None) -> list[RunId]:
        """Stops what runs and waits, of that which came `before`; returns what will stop."""
        stopped = []
        for run in self.runtime.running.of(key):
            if run.request.run_id == before:
                break
            if run.abort(by):
                stopped.append(run.request.run_id)
        self.lanes.look_again(str(key))
        return stopped

    def _interrupt(self, by: ActiveRun) -> None:
        """Stops what came before, but nothing of somebody who may do more: it waits for that."""
        for run in self.runtime.running.of(by.request.key):
            if run is by:
                break
            if by.request.may.covers(run.request.may):
                run.abort(INTERRUPT)
        self.lanes.look_again(str(by.request.key))

    async def take_up(self, front: ActiveRun) -> None:
        """Does the turn of a run: its own, or one that it shares with those behind it."""
        front.turn = None
        await front.admitted.wait()
        if front.withdrawn:
            return
        turn = batch(front, self.behind(front))
        *guests, host = turn.runs
        for run in turn.runs:
            self._leave(run)
        for guest in guests:
            host.join(guest)
        if guests or turn.dropped:
            host.batch = turn
        self._notified.discard(host.request.key)
        await Run(self.runtime, host, self.put_back).execute()

    def behind(self, front: ActiveRun) -> list[ActiveRun]:
        """Returns the runs that wait behind this one, up to what is no run."""
        waiting: list[ActiveRun] = []
        for job in self.lanes.waiting(str(front.request.key)):
            if not isinstance(job, Turn):
                break
            if job.run is not front:
                waiting.append(job.run)
        return waiting

    def report(self) -> QueueReport:
        """Returns the active and waiting runs."""
        runs: dict[SessionKey, list[ActiveRun]] = {}
        for run in self.runtime.running.of():
            runs.setdefault(run.request.key, []).append(run)
        sessions = tuple(self._session(key, active) for key, active in runs.items())
        return QueueReport(
            tuple(self.lanes.use()), sessions, tuple(self.runtime.supervisor.abandoned())
        )

    def _session(self, key: SessionKey, runs: Sequence[ActiveRun]) -> SessionQueue:
        at_work = next((run for run in runs if run.started_at and run.host is None), None)
        waiting = [run for run in runs if not run.started_at and run.host is None]
        first = runs[0]
        config = self.runtime.config().messages.queue
        mode = config.rules(channel(first.request), first.settings).mode
        return SessionQueue(
            str(key),
            at_work.request.run_id if at_work else None,
            at_work.started_at if at_work else None,
            len(waiting),
            waiting[0].accepted_at if waiting else None,
            mode,
        )

    def _steer(self, key: SessionKey) -> None:
        """Moves messages from the lane into the run that is on, up to the first that has to wait.

        They enter in the order in which they were accepted: none enters while one waits before it.
        """
        host = self.runtime.running.working(key)
        if host is None:
            return
        for job in self.lanes.waiting(str(key)):
            if not isinstance(job, Turn) or not job.run.steers(host):
                return
            run = job.run
            if not run.entered and run not in host.steering:
                host.take_in(run)
            if run.rules is not None and run.rules.mode is QueueMode.STEER:
                self._leave(run)

    def _leave(self, run: ActiveRun) -> bool:
        """Gives up the run's place; returns false where it has none."""
        turn, run.turn = run.turn, None
        return turn is not None and self.lanes.withdraw(str(run.request.key), turn)

    async def _make_room(self, key: SessionKey, rules: QueueRules) -> None:
        """Drops what waits beyond the cap, as the policy says."""
        jobs = self.lanes.waiting(str(key))
        waiting = [job.run for job in jobs if isinstance(job, Turn)]
        queued = [run for run in waiting if run.is_queued]
        dropped = excess(queued, rules)
        if not dropped:
            return
        if rules.drop is DropPolicy.SUMMARIZE:
            queued[len(dropped)].unseen += sum(1 + run.unseen for run in dropped)
        for run in dropped:
            self._leave(run)
            for host in self.runtime.running.of(key):
                if run in host.steering:
                    host.steering.remove(run)
        with anyio.CancelScope(shield=True):  # they have no place any more: somebody must end them
            for run in dropped:
                notify = key not in self._notified  # once, not once a message
                self._notified.add(key)
                if not await out_of_band.drop(self.runtime, run, rules.cap, notify=notify):
                    # Whoever accepts a message does not wait for room on the disk; this may.
                    work = partial(
                        out_of_band.drop, self.runtime, run, rules.cap, notify=notify, patient=True
                    )
                    name = f"{key}:aside:{run.request.run_id}"
                    self.lanes.submit(name, work, counted=False)


def channel(request: RunRequest) -> str:
    """Returns the channel over which the request came."""
    return request.reply_to.channel if request.reply_to else WEBCHAT
