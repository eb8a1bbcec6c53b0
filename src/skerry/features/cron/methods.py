"""Methods for cron jobs: list, add, update, remove, run, and the run log."""

import uuid
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from skerry.features.cron import job_records, tables, wire
from skerry.features.cron.editing import new_job, patched
from skerry.features.cron.errors import JobError, JobNotFoundError, JobRunningError
from skerry.features.cron.execution import OWNER, Execution
from skerry.features.cron.job_listing import CronListParams, CronRunsParams, cron_list, cron_runs
from skerry.features.cron.jobs import AgentTurn, Job
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError
from skerry.gateway.methods.overrides import known_model
from skerry.model.ids import AgentId
from skerry.store import DATABASE, Unit, last_routes

Object = Annotated[dict[str, Any], Field(max_length=32)]
_V4: Final = 4
_RUNNING: Final = "already-running"


class JobParams(Params):
    """Parameters of a method for one job, by `id` or `jobId`."""

    id: Name | None = None
    job_id: Name | None = None

    @model_validator(mode="after")
    def _names_one(self) -> "JobParams":
        if (self.id is None) == (self.job_id is None):
            raise ValueError("pass the job as id or as jobId")
        return self

    @property
    def job(self) -> str:
        """Returns the id of the job."""
        return self.id or self.job_id or ""


class CronAddParams(Params):
    """Parameters of `cron.add`."""

    ignored: ClassVar = {
        "displayName": "A job is shown by its name.",
        "owner": "Jobs belong to the owner of the gateway.",
        "failureAlert": "A job that keeps failing is switched off and announced.",
    }
    refused: ClassVar = {
        "declarationKey": "jobs are added and changed by their ids.",
        "pacing": "jobs follow their schedule alone.",
        "trigger": "jobs have no condition besides their schedule.",
    }

    name: Name
    agent_id: Name | None = None
    session_key: Name | None = None
    description: Annotated[str, Field(max_length=2_000)] | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    schedule: Object
    session_target: Literal["main", "isolated"] | None = None
    wake_mode: Literal["now", "next-heartbeat"] | None = None
    payload: Object
    delivery: Object | None = None


class CronUpdateParams(JobParams):
    """Parameters of `cron.update`."""

    patch: Object
    expected_config_revision: Name | None = None
    """The `configRevision` of the job that the client read."""


class CronRunParams(JobParams):
    """Parameters of `cron.run`: `due` runs a job only when it is due."""

    ignored: ClassVar = {"expectedProcessInstanceId": "One gateway owns the jobs."}

    mode: Literal["due", "force", "if-enabled"] = "force"


async def cron_status(call: Call, _params: NoParams) -> Json:
    """Returns the number of jobs, and the next due time."""
    context = call.context
    path = str(context.config().state_dir / DATABASE)
    jobs, next_at = await context.store.read(
        lambda reader: (tables.count(reader), tables.next_at(reader))
    )
    return {
        "enabled": context.config().cron.enabled,
        "triggersEnabled": False,
        "storePath": path,
        "storage": "sqlite",
        "sqlitePath": path,
        "jobs": jobs,
        "nextWakeAtMs": next_at,
    }


async def cron_get(call: Call, params: JobParams) -> Json:
    """Returns one job."""
    return await _job_json(call, await _job(call, params.job))


async def cron_add(call: Call, params: CronAddParams) -> Json:
    """Adds a job; returns it."""
    context = call.context
    fields = params.model_dump(by_alias=True)
    agent = call.agent(params.agent_id)
    now = context.clock.now_ms()
    job = new_job(str(uuid.uuid4()), {**fields, "agentId": agent}, agent, now)
    await _check_model(call, job)

    def write(unit: Unit) -> None:
        if tables.count(unit) >= job_records.MAX_JOBS:
            raise JobError(
                f"The limit of {job_records.MAX_JOBS} cron jobs is reached.",
                "Remove some of them.",
            )
        job_records.put(unit, job)

    await context.store.write(write)
    _tell(call, job, "added")
    return await _job_json(call, job)


async def cron_update(call: Call, params: CronUpdateParams) -> Json:
    """Changes a job; returns it."""
    context, now = call.context, call.context.clock.now_ms()
    patch = dict(params.patch)
    if patch.get("agentId") is not None or "agentId" in patch:
        patch["agentId"] = call.agent(patch["agentId"])
    before = await _job(call, params.job)
    expected = params.expected_config_revision
    if expected is not None and expected != wire.revision([before]):
        raise RefusedError("The job was changed meanwhile.", "Read it again, then change it.")
    await _check_model(call, patched(before, patch, now))

    def write(unit: Unit) -> Job:
        job = job_records.get(unit, params.job)
        if job is None:
            raise JobNotFoundError(params.job)
        changed = patched(job, patch, now)
        job_records.put(unit, changed)
        return changed

    job = await context.store.write(write)
    _tell(call, job, "updated")
    return await _job_json(call, job)


async def cron_remove(call: Call, params: JobParams) -> Json:
    """Removes a job; its present run continues, and its log is kept."""
    removed = await call.context.store.write(lambda unit: tables.remove(unit, params.job))
    if removed:
        call.context.broadcast.send("cron", {"jobId": params.job, "action": "removed"})
        call.context.signals.set(OWNER)
    return {"ok": True, "removed": removed}


async def cron_run(call: Call, params: CronRunParams) -> Json:
    """Runs a job now. Protocol 3 receives the response after the run, protocol 4 at once."""
    context, runs = call.context, call.context.internal_runs
    job, now = await _job(call, params.job), context.clock.now_ms()
    if runs is None:
        raise RefusedError("This gateway runs no agents.")
    reason = _obstacle(job, params.mode, now)
    if reason:
        return {"ok": True, "ran": False, "enqueued": False, "reason": reason}
    context.signals.set(OWNER)
    try:
        run_id = await Execution(context, runs).start(job, now, "manual")
    except JobRunningError:  # another request was faster
        return {"ok": True, "ran": False, "enqueued": False, "reason": _RUNNING}
    context.signals.set(OWNER)
    if call.protocol >= _V4:
        return {"ok": True, "enqueued": True, "runId": run_id}
    await runs.finish(run_id)
    return {"ok": True, "ran": True}


def _obstacle(job: Job, mode: str, now: int) -> str:
    """Returns the reason why a job is not run now, or an empty string."""
    if job.state.running_at_ms is not None:
        return _RUNNING
    if mode == "if-enabled" and not job.enabled:
        return "disabled"
    due_at = job.state.next_run_at_ms
    if mode == "due" and (not job.enabled or due_at is None or due_at > now):
        return "not-due"
    return ""


async def _job(call: Call, job_id: str) -> Job:
    job = await call.context.store.read(lambda reader: job_records.get(reader, job_id))
    if job is None:
        raise JobNotFoundError(job_id)
    return job


async def _job_json(call: Call, job: Job) -> Json:
    agent = AgentId(job.agent_id)
    to = await call.context.store.read(lambda reader: last_routes.last(reader, agent))
    return wire.job(job, f"{to.channel}:{to.peer.id}" if to else "")


async def _check_model(call: Call, job: Job) -> None:
    if isinstance(job.payload, AgentTurn) and job.payload.model:
        await known_model(call, job.payload.model)


def _tell(call: Call, job: Job, action: str) -> None:
    event: dict[str, Json] = {"jobId": job.id, "action": action}
    if job.state.next_run_at_ms is not None:
        event["nextRunAtMs"] = job.state.next_run_at_ms
    call.context.broadcast.send("cron", event)
    call.context.signals.set(OWNER)


METHODS: Final = (
    Method("cron.list", CronListParams, cron_list),
    Method("cron.status", NoParams, cron_status),
    Method("cron.runs", CronRunsParams, cron_runs),
    Method("cron.get", JobParams, cron_get),
    Method("cron.add", CronAddParams, cron_add),
    Method("cron.update", CronUpdateParams, cron_update),
    Method("cron.remove", JobParams, cron_remove),
    Method("cron.run", CronRunParams, cron_run, waits=True),
)
