"""Starts the run of a job, and stores its end.

The claim of a due time, the next time of the job and the run are one unit: after a kill either the
job is still due, or its run is in the store. The end is processed once
(`runtime/internal_runs.py`).
"""

import logging
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.features.cron import job_records, tables
from skerry.features.cron.errors import JobRunningError
from skerry.features.cron.job_states import (
    ERROR_CHARS,
    after_run,
    claimed,
    final,
    in_a_row,
    outcome,
    scheduled_time,
    with_duration,
)
from skerry.features.cron.jobs import AgentTurn, Job, JobLogEntry, Status
from skerry.features.cron.wire import entry_event
from skerry.gateway.context import GatewayContext
from skerry.infra.clock import iso
from skerry.model.errors import BusyError, SkerryError, StateError
from skerry.model.ids import AccountId, AgentId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest, RunResult
from skerry.model.thinking import ThinkingLevel
from skerry.runtime.internal_runs import EndedInternalRun, InternalRuns, RunSettlement, deliver
from skerry.store import Unit, archive, last_routes, retention, sessions

logger = logging.getLogger(__name__)

OWNER: Final = "cron"
"""Name of this feature as the owner of internal runs."""
POSTS: Final = "cron.posts"
"""Signal that a webhook waits for its post."""
LATE_MS: Final = 60_000
"""Delay in milliseconds from which a run counts as missed, and mentions it."""
_MAX_SESSIONS: Final = 100
_MAX_LABEL: Final = 64
SUMMARY_CHARS: Final = 2_000
LAST: Final = "last"
_DEFAULT_ACCOUNT: Final = AccountId("default")


class Subject(Struct, frozen=True):
    """Job and due time of a run, stored with it."""

    job_id: str
    due_at: int


_subjects = msgspec.json.Decoder(Subject)


class Execution(Struct, frozen=True):
    """Starts and ends the runs of one gateway's jobs."""

    context: GatewayContext
    runs: InternalRuns

    async def start(self, job: Job, due_at: int, trigger: str) -> RunId:
        """Claims the run of a due time and starts it; a claimed run is not started again.

        A run that cannot be started counts as failed. When the time was claimed before the clock
        was set back, the job waits for its next time.

        Raises:
            BusyError: the gateway stops; the job remains due.
            StateError: nothing was stored; the job remains due.
            JobRunningError: another run of the job was started meanwhile.
        """
        now = self.runs.now_ms()
        run_id = RunId(f"cron-{job.id}-{due_at}")
        if await self.context.store.read(lambda reader: tables.is_claimed(reader, job.id, due_at)):
            await self.context.store.write(partial(_skip, job_id=job.id, due_at=due_at))
            return run_id
        subject = msgspec.json.encode(Subject(job.id, due_at))
        to = await self.target(job)

        def claim(unit: Unit) -> None:
            if tables.claim(unit, (job.id, job.agent_id), due_at, run_id, trigger, now):
                present = job_records.get(unit, job.id)
                if present is None:
                    return
                if present.state.running_at_ms is not None:
                    raise JobRunningError(job.id)
                job_records.put(unit, claimed(present, now))

        try:
            await self.runs.start(_request(job, run_id, due_at, now, to), OWNER, subject, claim)
        except (BusyError, StateError, JobRunningError):
            raise
        except SkerryError as error:
            await self._refuse(job, due_at, claim, error)
            return run_id
        self.runs.dispatch.reach("cron.claimed")
        self.context.broadcast.send(
            "cron", {"jobId": job.id, "action": "started", "runAtMs": now, "runId": run_id}
        )
        return run_id

    async def target(self, job: Job) -> ReplyTo | None:
        """Returns the chat that receives the reply, or None."""
        delivery = job.delivery
        if job.session_target == "isolated" and (delivery is None or delivery.mode != "announce"):
            return None
        if delivery is None or not delivery.to or delivery.channel in {None, LAST}:
            agent = AgentId(job.agent_id)
            return await self.context.store.read(lambda reader: last_routes.last(reader, agent))
        return ReplyTo(
            ChannelId(delivery.channel or ""),
            AccountId(delivery.account_id) if delivery.account_id else _DEFAULT_ACCOUNT,
            Peer(PeerKind.DIRECT, delivery.to),
            "",
        )

    async def settle(self, ended: EndedInternalRun) -> RunSettlement:
        """Returns the rows for the end of a run: its log entry, and the next state of the job.

        A restored backup may have an open run whose end the log has; that end applies.
        """
        subject = _subjects.decode(ended.subject)
        now, (status, error) = self.runs.now_ms(), outcome(ended.result)
        logged = await self.context.store.read(
            lambda reader: job_records.ended(reader, subject.job_id, subject.due_at)
        )
        if logged is not None:
            status, error = logged.status or status, logged.error
        job = await self.context.store.read(lambda reader: job_records.get(reader, subject.job_id))
        following = None if job is None else after_run(job, now, status, error, final(ended.result))
        to, texts = await self._notice(job, following)
        if ended.result is not None and job is not None and job.session_target == "isolated":
            await self._forget_old(ended.result.session_key, now)
        await self._forget_gone(now)
        entry = logged or self._entry(ended, subject, status, error, following)
        keep = self.context.config().cron.run_log.keep_lines

        def write(unit: Unit) -> None:
            _end(unit, subject.due_at, entry, ended.result)
            if to is not None:
                deliver(unit, ended.run_id, to, texts, now)
            tables.prune(unit, subject.job_id, keep)

        def after() -> None:
            self.runs.dispatch.reach("cron.settled")
            self.context.broadcast.send("cron", entry_event(entry))
            if to is not None:
                self.runs.delivery.wake(to)
            self.context.signals.set(OWNER)
            self.context.signals.set(POSTS)

        return RunSettlement(write, after)

    async def _forget_old(self, key: str, now: int) -> None:
        """Removes the sessions of earlier runs that are older than `cron.sessionRetention`."""
        config, store = self.context.config(), self.context.store
        before, folder = now - config.cron.session_retention, config.state_dir / "agents"
        for old in await store.read(
            lambda reader: archive.reset_before(reader, key, before, _MAX_SESSIONS)
        ):
            await store.read(partial(retention.remove_file, agents_dir=folder, session_id=old))
            await store.write(partial(retention.remove, session_id=old))

    async def _forget_gone(self, now: int) -> None:
        """Removes the sessions of removed jobs that are older than `cron.sessionRetention`."""
        config, store = self.context.config(), self.context.store
        before, folder = now - config.cron.session_retention, config.state_dir / "agents"
        for session_id, key in await store.read(
            lambda reader: tables.sessions_of_removed(reader, before, _MAX_SESSIONS)
        ):
            session_key = SessionKey.parse(key)
            await store.write(partial(_archive, key=session_key, session_id=session_id, now=now))
            await store.read(
                partial(retention.remove_file, agents_dir=folder, session_id=session_id)
            )
            await store.write(partial(retention.remove, session_id=session_id))

    def _entry(
        self,
        ended: EndedInternalRun,
        subject: Subject,
        status: Status,
        error: str | None,
        following: Job | None,
    ) -> JobLogEntry:
        result, now = ended.result, self.runs.now_ms()
        entry = JobLogEntry(
            now,
            subject.job_id,
            status=status,
            error=error,
            run_id=ended.run_id,
            due_at_ms=subject.due_at,
            next_run_at_ms=following.state.next_run_at_ms if following else None,
        )
        if result is None:
            return entry
        usage = result.usage
        return replace(
            entry,
            summary="\n\n".join(result.payloads)[:SUMMARY_CHARS] or None,
            session_id=result.session_id,
            session_key=result.session_key,
            run_at_ms=result.started_at,
            duration_ms=max(result.ended_at - result.started_at, 0),
            model=result.model or None,
            provider=result.provider or None,
            usage={
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
            },
        )

    async def _refuse(self, job: Job, due_at: int, claim: tables.Write, error: SkerryError) -> None:
        """Stores the failed start of a run."""
        now = self.runs.now_ms()
        text = str(error)[:ERROR_CHARS]
        logger.warning("the cron job %s (%s) could not be started: %s", job.id, job.name, text)
        entry = JobLogEntry(
            now, job.id, status="error", error=text, due_at_ms=due_at, run_at_ms=now
        )

        def write(unit: Unit) -> None:
            claim(unit)
            job_records.end(unit, due_at, entry)
            present = job_records.get(unit, job.id)
            stored = after_run(present, now, "error", text) if present is not None else None
            if stored is not None:
                job_records.put(unit, stored)

        await self.context.store.write(write)
        self.context.broadcast.send("cron", entry_event(entry))

    async def _notice(self, job: Job | None, off: Job | None) -> tuple[ReplyTo | None, list[str]]:
        """Returns the receiver and the parts of the message about a job that was switched off."""
        if job is None or off is None or not off.state.off_reason or not job.enabled:
            return None, []
        logger.warning("the cron job %s (%s) was switched off", job.id, job.name)
        failures = f"it failed {off.state.consecutive_errors} times in a row"
        reason = failures if in_a_row(off.state) == off.state.off_reason else off.state.off_reason
        text = (
            f"⚠️ The cron job “{job.name}” was switched off: {reason}."
            f" The last error: {off.state.last_error or ''}"
            f"\n\nSwitch it on again: `skerry cron enable {job.id}`"
        )
        agent = AgentId(job.agent_id)
        self.context.system_events.add(SessionKey.main(agent), text)
        to = await self.target(job)
        if to is None:
            to = await self.context.store.read(lambda reader: last_routes.last(reader, agent))
        return to, self.runs.delivery.parts(to, text) if to is not None else []


def _archive(unit: Unit, key: SessionKey, session_id: str, now: int) -> None:
    """Archives the session if it is the present one of its conversation."""
    present = sessions.find(unit, str(key))
    if present is not None and present.session_id == session_id:
        archive.delete(unit, key, now)


def _skip(unit: Unit, job_id: str, due_at: int) -> None:
    """Moves a job that waits for a claimed time to its next time."""
    job = job_records.get(unit, job_id)
    if job is not None and job.state.next_run_at_ms == due_at:
        following = unclaimed(unit, job)
        if following.state.next_run_at_ms is None:
            state = replace(following.state, off_reason="it ran at this time before")
            following = replace(following, state=state, enabled=False)
        job_records.put(unit, following)


def unclaimed(unit: Unit, job: Job) -> Job:
    """Returns the job with the first time, from its present one on, that was not claimed."""
    due_at = job.state.next_run_at_ms
    while due_at is not None and tables.is_claimed(unit, job.id, due_at):
        due_at = scheduled_time(job, due_at)
    return replace(job, state=replace(job.state, next_run_at_ms=due_at))


def _end(unit: Unit, due_at: int, entry: JobLogEntry, result: RunResult | None) -> None:
    """Stores the end of a run in the log and, if it still exists, in its job."""
    run = tables.run_claim(unit, entry.job_id, due_at)
    if run is not None:
        entry = replace(entry, trigger=run[0], run_at_ms=entry.run_at_ms or run[1])
    job = job_records.get(unit, entry.job_id)
    job_records.end(unit, due_at, entry, _hook(job))
    if job is None or entry.status is None:
        return
    following = after_run(job, entry.ts, entry.status, entry.error, final(result))
    if following is None:
        tables.remove(unit, job.id)
    else:
        job_records.put(unit, with_duration(following, result))


def _hook(job: Job | None) -> str | None:
    """Returns the address of the webhook that receives each run of the job."""
    if job is None or job.delivery is None or job.delivery.mode != "webhook":
        return None
    return job.delivery.to


def _request(job: Job, run_id: RunId, due_at: int, now: int, to: ReplyTo | None) -> RunRequest:
    """Returns the run of a job: in an isolated session, or in a conversation of the agent."""
    begin = f"[cron:{job.id} {job.name}]"
    if now - due_at > LATE_MS:
        begin += f" It was due at {iso(due_at)}, when the gateway could not start it."
    agent = AgentId(job.agent_id)
    if isinstance(job.payload, AgentTurn):
        turn = job.payload
        text = f"{begin} {turn.message}\nCurrent time: {iso(now)}"
        return RunRequest(
            run_id,
            SessionKey(agent, ("cron", job.id)),
            text,
            timeout=turn.timeout_seconds,
            reply_to=to,
            thinking=ThinkingLevel(turn.thinking) if turn.thinking else None,
            model=turn.model,
            origin=Origin.OWNER,
            purpose=Purpose.CRON,
            fresh=True,
            label=job.name[:_MAX_LABEL],
        )
    key = SessionKey.parse(job.session_key or "", agent)
    text = f"{begin} {job.payload.text}"
    return RunRequest(run_id, key, text, reply_to=to, origin=Origin.OWNER, purpose=Purpose.CRON)
