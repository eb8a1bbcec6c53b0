"""The method that archives and removes sessions beyond the limits of `session.maintenance`."""

from typing import Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Params
from skerry.sessions.retention import DueSession, RetentionPlan, carry_out, plan
from skerry.store.retention import retained


class SessionsPruneParams(Params):
    """Parameters of `sessions.prune`. `dryRun` changes nothing."""

    dry_run: bool = False


async def sessions_prune(call: Call, params: SessionsPruneParams) -> Json:
    """Archives and removes sessions beyond the limits, in any mode."""
    context = call.context
    config, now = context.config(), context.clock.now_ms()
    due = plan(await context.store.read(retained), config.session.maintenance, now)
    if not params.dry_run:
        agents = config.state_dir / "agents"
        due = await carry_out(context.store, context.hooks, agents, due, now)
        context.session_events.changed(
            [archived.session.session_id for archived in due.archive], "delete"
        )
    return {"ok": True, "dryRun": params.dry_run, **_plan_fields(due)}


def _plan_fields(due: RetentionPlan) -> dict[str, Json]:
    return {
        "archived": [_row(archived) for archived in due.archive],
        "removed": [_row(removed) for removed in due.remove],
        "bytes": due.size,
    }


def _row(due: DueSession) -> Json:
    session = due.session
    return {
        "key": session.key,
        "sessionId": session.session_id,
        "updatedAt": session.updated_at,
        "bytes": session.size,
        "why": due.reason,
    }


METHODS: Final = (Method("sessions.prune", SessionsPruneParams, sessions_prune),)
