"""Starts jobs when they are due: sleeps until the next due time, and detects changes of the clock.

A job that was due while no gateway ran, or while the machine slept, runs once at the next check,
and its next time is after that.
"""

import logging
from contextlib import suppress
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.features.cron import job_records, tables
from skerry.features.cron.errors import JobRunningError
from skerry.features.cron.execution import LATE_MS, OWNER, Execution, unclaimed
from skerry.features.cron.job_states import scheduled_time
from skerry.features.cron.job_webhooks import Webhooks
from skerry.features.cron.jobs import At, Job
from skerry.gateway.context import GatewayContext
from skerry.model.errors import BusyError, StateError
from skerry.model.ids import AgentId
from skerry.runtime.internal_runs import InternalRuns
from skerry.store import Unit, tasks

logger = logging.getLogger(__name__)

MAX_SLEEP_SECONDS: Final = 60.0
"""Maximum seconds between two readings of the clock, which may be set."""
BATCH: Final = 100
"""Maximum number of jobs that one check starts."""
RETRY_SECONDS: Final = 1.0


class Scheduler(Struct):
    """Scheduler of one gateway. `run` continues until cancelled."""

    context: GatewayContext
    runs: InternalRuns
    _looked_at: int = 0
    """Time of the last check, in milliseconds since 1970."""
    _next_at: int | None = field(default=None)
    _unreadable: set[str] = field(default_factory=set)
    """Ids of the due jobs that cannot be read."""

    @property
    def execution(self) -> Execution:
        """Returns the object that starts and ends the runs."""
        return Execution(self.context, self.runs)

    async def run(self) -> None:
        """Starts jobs, processes the ends of their runs and posts webhooks."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.runs.collect, OWNER, self.execution.settle)
            tasks.start_soon(Webhooks(self.context).run)
            while True:
                try:
                    await self.look()
                except BusyError:
                    return  # the gateway stops; due jobs remain due at the next start
                except StateError as error:
                    logger.warning("cron jobs wait for the store: %s", error)
                    await anyio.sleep(RETRY_SECONDS)
                    continue
                await self._sleep()

    async def look(self) -> None:
        """Starts the due jobs; recomputes their times first when the clock was set back."""
        now = self.runs.now_ms()
        if now < self._looked_at or not self._looked_at:
            await self._recompute(now)
        self._looked_at = now
        if not self.context.config().cron.enabled:
            self._next_at = now + round(MAX_SLEEP_SECONDS * 1000)
            return
        execution, waits = self.execution, False
        unreadable = self._unreadable
        for job_id, job in await self.context.store.read(
            lambda reader: job_records.due(reader, now, BATCH, unreadable)
        ):
            if job is None:
                # One damaged job must not stop the others; the next start reads it again.
                logger.error(
                    "the cron job %s cannot be read and does not run; add it again", job_id
                )
                unreadable.add(job_id)
                continue
            due_at = job.state.next_run_at_ms or now
            if await self._waits(job, due_at):
                waits = True
                continue
            with suppress(JobRunningError):  # a person started it meanwhile
                await execution.start(job, due_at, "missed" if now - due_at > LATE_MS else "due")
        self._next_at = await self.context.store.read(
            lambda reader: (
                tables.next_after(reader, now) if waits else tables.next_at(reader, unreadable)
            )
        )
        if waits:
            latest = now + round(MAX_SLEEP_SECONDS * 1000)
            self._next_at = min(self._next_at or latest, latest)

    async def _waits(self, job: Job, due_at: int) -> bool:
        """Returns true when a job of the main conversation waits for the agent's next heartbeat."""
        if job.wake_mode == "now" or job.session_target != "main":
            return False
        config = self.context.config()
        agent_sections = {
            agent.id: agent.heartbeat for agent in config.agents.list if agent.heartbeat
        }
        agent = AgentId(job.agent_id)
        heartbeat = (
            agent_sections.get(agent) if agent_sections else config.agents.defaults.heartbeat
        )
        if heartbeat is None or not heartbeat.enabled or not heartbeat.every:
            return False
        done_at = await self.context.store.read(
            lambda reader: tasks.done_at(reader, f"heartbeat.{agent}")
        )
        return done_at is None or done_at < due_at

    async def _sleep(self) -> None:
        """Sleeps until the next job is due, or a job changes."""
        if self._next_at is None:
            await self.context.signals.wait(OWNER)
            return
        seconds = (self._next_at - self.runs.now_ms()) / 1000
        await self.context.signals.wait(OWNER, min(max(seconds, 0.0), MAX_SLEEP_SECONDS))

    async def _recompute(self, now: int) -> None:
        """Recomputes the times of recurring jobs, at a start or when the clock was set back.

        Keeps a time in the past, which was missed. Skips a claimed time.
        """

        def write(unit: Unit) -> None:
            for job in job_records.jobs(unit):
                changed = recomputed(job, now)
                if changed is not None:
                    job_records.put(unit, unclaimed(unit, changed))

        jobs = await self.context.store.read(job_records.jobs)
        if any(recomputed(job, now) is not None for job in jobs):
            await self.context.store.write(write)


def recomputed(job: Job, now: int) -> Job | None:
    """Returns the job with its next time, when the stored time is too late; else None.

    Keeps the time of a job that waits after a failure, or runs once.
    """
    state = job.state
    if not job.enabled or isinstance(job.schedule, At) or state.running_at_ms is not None:
        return None
    following = scheduled_time(job, now)
    if following is None or (state.next_run_at_ms is not None and state.retry_at_ms is not None):
        return None
    if state.next_run_at_ms is not None and state.next_run_at_ms <= following:
        return None
    return replace(job, state=replace(state, next_run_at_ms=following))
