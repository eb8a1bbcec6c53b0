"""Methods for features that are missing yet: well-formed, empty answers.

Clients call them when they connect or in overviews, and treat an error as a broken gateway.
"""

import hashlib
from typing import Annotated, Final, Literal

from pydantic import Field

from skerry.gateway.frames import Json, raw
from skerry.gateway.method import Call, Method, Name, NoParams, Params
from skerry.store import DATABASE

Offset = Annotated[int, Field(ge=0, le=1 << 40)]
Limit = Annotated[int, Field(ge=1, le=200)]
Query = Annotated[str, Field(max_length=512)]
RunStatus = Literal["ok", "error", "skipped"]
DeliveryStatus = Literal["delivered", "not-delivered", "unknown", "not-requested"]

_LIMIT: Final = 50


class CronListParams(Params):
    """Parameters of `cron.list`; with no jobs they choose nothing."""

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
    compact: bool | None = None
    include_delivery_previews: bool | None = None


class CronRunsParams(Params):
    """Parameters of `cron.runs`; with no jobs they choose nothing."""

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


class ChannelsStatusParams(Params):
    """Parameters of `channels.status`."""

    probe: bool | None = None
    timeout_ms: Annotated[int, Field(ge=0, le=600_000)] | None = None
    channel: Name | None = None


class SkillsStatusParams(Params):
    """Parameters of `skills.status`."""

    agent_id: Name | None = None
    session_key: Name | None = None


def cron_list(_call: Call, params: CronListParams) -> Json:
    """Returns a page of the scheduled jobs, of which there are none."""
    page = _page(params.offset, params.limit)
    revision = f"sha256:{hashlib.sha256(b'[]').hexdigest()}"
    return {"jobs": [], "snapshotRevision": revision, **page, "deliveryPreviews": {}}


def cron_status(call: Call, _params: NoParams) -> Json:
    """Returns that nothing is scheduled."""
    path = str(call.context.config().state_dir / DATABASE)
    return {
        "enabled": False,
        "triggersEnabled": False,
        "storePath": path,
        "storage": "sqlite",
        "sqlitePath": path,
        "jobs": 0,
        "nextWakeAtMs": None,
    }


def cron_runs(_call: Call, params: CronRunsParams) -> Json:
    """Returns a page of what jobs did, which is nothing."""
    return {"entries": [], **_page(params.offset, params.limit)}


def _page(offset: int, limit: int) -> dict[str, Json]:
    return {"total": 0, "offset": offset, "limit": limit, "hasMore": False, "nextOffset": None}


def channels_status(call: Call, _params: ChannelsStatusParams) -> Json:
    """Returns the chat platforms, of which none can be configured yet."""
    return {
        "ts": call.context.clock.now_ms(),
        "channelOrder": [],
        "channelLabels": {},
        "channelDetailLabels": {},
        "channelSystemImages": {},
        "channelMeta": [],
        "channels": {},
        "channelAccounts": {},
        "channelDefaultAccountId": {},
    }


def skills_status(call: Call, params: SkillsStatusParams) -> Json:
    """Returns an agent's skills, of which there are none."""
    config = call.context.config()
    agent = call.session_key(params.session_key, params.agent_id).agent
    return {
        "workspaceDir": str(config.workspace(agent)),
        "managedSkillsDir": str(config.state_dir / "skills"),
        "agentId": agent,
        "skills": [],
    }


def last_heartbeat(_call: Call, _params: NoParams) -> Json:
    """Returns the last heartbeat: null, for there is none."""
    return raw(None)


METHODS: Final = (
    Method("cron.list", CronListParams, cron_list),
    Method("cron.status", NoParams, cron_status),
    Method("cron.runs", CronRunsParams, cron_runs),
    Method("channels.status", ChannelsStatusParams, channels_status),
    Method("skills.status", SkillsStatusParams, skills_status),
    Method("last-heartbeat", NoParams, last_heartbeat),
)
