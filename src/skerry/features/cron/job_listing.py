"""Pages of jobs and of their runs."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from skerry.features.cron import job_records, wire
from skerry.features.cron.jobs import Job, JobLogEntry
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Name, Params
from skerry.model.ids import AgentId, RunId
from skerry.store import Reader, last_routes, outbox
from skerry.store.outbox import PartState

Offset = Annotated[int, Field(ge=0, le=1 << 40)]
Limit = Annotated[int, Field(ge=1, le=200)]
Query = Annotated[str, Field(max_length=512)]
RunStatus = Literal["ok", "error", "skipped"]
DeliveryStatus = Literal["delivered", "not-delivered", "unknown", "not-requested"]
_LIMIT = 50
_MAX_ENTRIES = 5_000


class CronListParams(Params):
    """Parameters of `cron.list`."""

    ignored: ClassVar = {"compact": "Jobs are always sent completely."}

    include_disabled: bool | None = None
    limit: Limit = _LIMIT
    offset: Offset = 0
    query: Query | None = None
    enabled: Literal["all", "enabled", "disabled"] | None = None
    schedule_kind: Literal["all", "at", "every", "cron", "on-exit", "stream"] | None = None
    last_run_status: Literal["all", "ok", "error", "skipped", "unknown"] | None = None
    trigger: Literal["all", "conditional", "unconditional"] | None = None
    sort_by: Literal["nextRunAtMs", "updatedAtMs", "name"] | None = None
    sort_dir: Literal["asc", "desc"] | None = None
    agent_id: Name | None = None
    session_agent_id: Name | None = None
    session_key: Name | None = None
    include_delivery_previews: bool | None = None


class CronRunsParams(Params):
    """Parameters of `cron.runs`: the runs of a job, or of all."""

    agent_id: Name | None = None
    scope: Literal["job", "all"] | None = None
    id: Name | None = None
    job_id: Name | None = None
    run_id: Name | None = None
    limit: Limit = _LIMIT
    offset: Offset = 0
    statuses: Annotated[list[RunStatus], Field(min_length=1, max_length=3)] | None = None
    status: Literal["all"] | RunStatus | None = None
    delivery_statuses: Annotated[list[DeliveryStatus], Field(min_length=1, max_length=4)] | None = (
        None
    )
    delivery_status: Literal["all"] | DeliveryStatus | None = None
    query: Query | None = None
    sort_dir: Literal["asc", "desc"] | None = None


async def cron_list(call: Call, params: CronListParams) -> Json:
    """Returns a page of the scheduled jobs."""

    def look(reader: Reader) -> tuple[list[Job], dict[str, str]]:
        chosen = [job for job in job_records.jobs(reader) if _is_listed(job, params)]
        chosen.sort(key=lambda job: _sort_key(job, params), reverse=params.sort_dir == "desc")
        chats = {}
        for agent in {job.agent_id for job in chosen}:
            to = last_routes.last(reader, AgentId(agent))
            chats[agent] = f"{to.channel}:{to.peer.id}" if to else ""
        return chosen, chats

    jobs, chats = await call.context.store.read(look)
    page = jobs[params.offset : params.offset + params.limit]
    rows: list[Json] = [wire.job(job, chats[job.agent_id]) for job in page]
    previews: dict[str, Json] = {}
    if params.include_delivery_previews is not False:
        previews = {job.id: wire.preview(job, chats[job.agent_id]) for job in page}
    return {
        "jobs": rows,
        "snapshotRevision": wire.revision(jobs),
        **_page(len(jobs), params.offset, params.limit),
        "deliveryPreviews": previews,
    }


async def cron_runs(call: Call, params: CronRunsParams) -> Json:
    """Returns a page of ended runs, latest first."""
    job_id = None if params.scope == "all" else params.id or params.job_id

    def look(reader: Reader) -> list[JobLogEntry]:
        entries = job_records.entries(reader, job_id, _MAX_ENTRIES)
        chosen = [entry for entry in entries if _is_chosen(entry, params)]
        if params.sort_dir == "asc":
            chosen.reverse()
        return chosen

    entries = await call.context.store.read(look)
    page = entries[params.offset : params.offset + params.limit]
    rows = await call.context.store.read(
        lambda reader: [_delivered(reader, wire.entry(entry)) for entry in page]
    )
    return {"entries": rows, **_page(len(entries), params.offset, params.limit)}


def _delivered(reader: Reader, row: dict[str, Json]) -> dict[str, Json]:
    """Adds the state of its parts in the outbox to an entry."""
    if "deliveryStatus" in row or not isinstance(row.get("runId"), str):
        return row
    states = outbox.states(reader, RunId(str(row["runId"])))
    if not states:
        status = "not-requested"
    elif states <= {PartState.SENT}:
        status = "delivered"
    elif states & {PartState.FAILED, PartState.DROPPED}:
        status = "not-delivered"
    else:
        status = "unknown"
    return {**row, "deliveryStatus": status}


def _is_listed(job: Job, params: CronListParams) -> bool:
    filter_ = params.enabled or ("all" if params.include_disabled else "enabled")
    query = (params.query or "").lower()
    last = job.state.last_status or "unknown"
    return (
        filter_ in {"all", "enabled" if job.enabled else "disabled"}
        and params.schedule_kind in {None, "all", job.schedule.__struct_config__.tag}
        and params.last_run_status in {None, "all", last}
        and params.trigger != "conditional"
        and (not query or query in f"{job.id} {job.name} {job.description or ''}".lower())
        and params.agent_id in {None, job.agent_id}
        and params.session_agent_id in {None, job.agent_id}
        and params.session_key in {None, job.session_key}
    )


def _sort_key(job: Job, params: CronListParams) -> tuple[object, ...]:
    match params.sort_by:
        case "name":
            return (job.name.lower(), job.id)
        case "updatedAtMs":
            return (job.updated_at_ms, job.id)
        case _:
            next_at = job.state.next_run_at_ms if job.enabled else None
            return (next_at is None, next_at or 0, job.id)


def _is_chosen(entry: JobLogEntry, params: CronRunsParams) -> bool:
    statuses = set(params.statuses or ()) | ({params.status} - {None, "all"})
    deliveries = set(params.delivery_statuses or ()) | ({params.delivery_status} - {None, "all"})
    query = (params.query or "").lower()
    text = f"{entry.job_id} {entry.summary or ''} {entry.error or ''}".lower()
    return (
        (not statuses or entry.status in statuses)
        and (not deliveries or entry.delivery_status in deliveries)
        and params.run_id in {None, entry.run_id}
        and (params.agent_id is None or f"agent:{params.agent_id}:" in f"{entry.session_key}:")
        and (not query or query in text)
    )


def _page(total: int, offset: int, limit: int) -> dict[str, Json]:
    has_more = offset + limit < total
    return {
        "total": total,
        "offset": offset,
        "limit": limit,
        "hasMore": has_more,
        "nextOffset": offset + limit if has_more else None,
    }
