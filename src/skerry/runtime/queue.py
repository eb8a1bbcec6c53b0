"""Queue of runs: each has a position in its session's lane, and a queue mode.

The position is assigned before the run is stored, so that messages keep their order. The mode is
applied after the run is stored: the message may move to the mailbox of the active run, stop that
run, or displace others. A turn processes all queued messages that are collected into it.
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
"""Limit on the wait for a sender who keeps writing, as a multiple of the debounce."""
INTERRUPT: Final = "interrupt"


class Turn(Struct, eq=False):
    """The position of a run in its lane; the job that the lane executes."""

    queue: "Queue"
    run: ActiveRun
    begun: float = -math.inf
    """Event loop time at which it could first have begun."""

    def delay(self) -> float:
        """Returns the seconds to wait for further messages of the same turn."""
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
        """Executes the run with all messages that are collected into it."""
        await self.queue.take_up(self.run)


class Queue(Struct):
    """Applies the queue mode to runs that arrive while their session is active."""

    runtime: Runtime
    lanes: Lanes
    _notified: set[SessionKey] = field(default_factory=set)
    """Sessions that got the notice about dropped messages."""

    def put(self, run: ActiveRun) -> None:
        """Adds a new run at the end of its lane."""
        self._submit(run)

    def put_back(self, run: ActiveRun) -> None:
        """Returns a run to its lane, before all runs that were accepted after it."""
        if run.turn is None:
            earlier = takewhile(lambda waiting: waiting.serial < run.serial, self.behind(run))
            self._submit(run, sum(1 for _ in earlier))

    def _submit(self, run: ActiveRun, index: int | None = None) -> None:
        run.turn = turn = Turn(self, run)
        self.lanes.submit(str(run.request.key), turn, index=index, delay=turn.delay)

    def forget(self, run: ActiveRun) -> None:
        """Removes a run that was not accepted from its lane."""
        self._remove(run)

    async def arrange(self, run: ActiveRun) -> None:
        """Applies the queue mode to a stored run whose session is active."""
        rules = run.rules
        if rules is None:
            return
        command = self.runtime.commands.command_in(run.request)
        if command is not None and command[0].at_once:
            self._answer_now(run, *command)
        elif rules.mode in {QueueMode.STEER, QueueMode.STEER_BACKLOG}:
            self._steer(run.request.key)
        elif rules.mode is QueueMode.INTERRUPT:
            self._interrupt(run)
        if run.turn is not None and rules.mode is not QueueMode.OWN_RUN:
            await self._make_room(run.request.key, rules)

    def _answer_now(self, run: ActiveRun, command: Command, arguments: str) -> None:
        """Answers the command during the active run, unless its turn has begun already."""
        key = str(run.request.key)
        if not self._remove(run):
            return
        work = partial(out_of_band.answer_apart, self.runtime, run, command, arguments)
        self.lanes.submit(f"{key}:aside:{run.request.run_id}", work, counted=False)

    def take_back(self, run: ActiveRun) -> bool:
        """Ends a stopped run that still waits, without an entry in the transcript.

        Returns False if its message is in the transcript, or is about to be written.
        """
        key = run.request.key
        steers = any(run in host.steering for host in self.runtime.running.of(key))
        if run.entry or steers or not run.admitted.is_set() or not self._remove(run):
            return False
        work = partial(out_of_band.end_unsaid, self.runtime, run)
        self.lanes.submit(f"{key}:aside:{run.request.run_id}", work, counted=False)
        return True

    def stop(self, key: SessionKey, by: str, *, before: RunId | None = None) -> list[RunId]:
        """Stops the session's runs, only those accepted before run `before`; returns their ids."""
        stopped = []
        for run in self.runtime.running.of(key):
            if run.request.run_id == before:
                break
            if run.abort(by):
                stopped.append(run.request.run_id)
        self.lanes.look_again(str(key))
        return stopped

    def _interrupt(self, by: ActiveRun) -> None:
        """Stops the earlier runs; it waits for those whose caller has more rights."""
        for run in self.runtime.running.of(by.request.key):
            if run is by:
                break
            if by.request.may.covers(run.request.may):
                run.abort(INTERRUPT)
        self.lanes.look_again(str(by.request.key))

    async def take_up(self, front: ActiveRun) -> None:
        """Executes the turn of a run, with the queued runs that are collected into it."""
        front.turn = None
        await front.admitted.wait()
        if front.withdrawn:
            return
        turn = batch(front, self.behind(front))
        *guests, host = turn.runs
        for run in turn.runs:
            self._remove(run)
        for guest in guests:
            host.join(guest)
        if guests or turn.dropped:
            host.batch = turn
        self._notified.discard(host.request.key)
        await Run(self.runtime, host, self.put_back).execute()

    def behind(self, front: ActiveRun) -> list[ActiveRun]:
        """Returns the runs that wait after this one, up to the first job that is not a run."""
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
        """Moves messages from the lane to the active run, up to the first that must wait.

        They enter in the order of acceptance: none enters while an earlier one waits.
        """
        host = self.runtime.running.working(key)
        if host is None:
            return
        for job in self.lanes.waiting(str(key)):
            if not isinstance(job, Turn) or not job.run.steers(host):
                return
            run = job.run
            if not run.entered and run not in host.steering:
                host.add_to_mailbox(run)
            if run.rules is not None and run.rules.mode is QueueMode.STEER:
                self._remove(run)

    def _remove(self, run: ActiveRun) -> bool:
        """Removes the run from its lane; returns False if it is not in it."""
        turn, run.turn = run.turn, None
        return turn is not None and self.lanes.withdraw(str(run.request.key), turn)

    async def _make_room(self, key: SessionKey, rules: QueueRules) -> None:
        """Drops the messages beyond the cap, according to the drop policy."""
        jobs = self.lanes.waiting(str(key))
        waiting = [job.run for job in jobs if isinstance(job, Turn)]
        queued = [run for run in waiting if run.is_queued]
        dropped = excess(queued, rules)
        if not dropped:
            return
        if rules.drop is DropPolicy.SUMMARIZE:
            queued[len(dropped)].unseen += sum(1 + run.unseen for run in dropped)
        for run in dropped:
            self._remove(run)
            for host in self.runtime.running.of(key):
                if run in host.steering:
                    host.steering.remove(run)
        with anyio.CancelScope(shield=True):  # they are in no lane any more, so end them here
            for run in dropped:
                notify = key not in self._notified  # one notice, not one for each message
                self._notified.add(key)
                if not await out_of_band.drop(self.runtime, run, rules.cap, notify=notify):
                    # Accepting a message must not wait for space on the disk; this job may.
                    work = partial(
                        out_of_band.drop, self.runtime, run, rules.cap, notify=notify, patient=True
                    )
                    name = f"{key}:aside:{run.request.run_id}"
                    self.lanes.submit(name, work, counted=False)


def channel(request: RunRequest) -> str:
    """Returns the channel of the request."""
    return request.reply_to.channel if request.reply_to else WEBCHAT
