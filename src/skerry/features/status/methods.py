"""The method `status`: the current activity of the gateway."""

import os
from typing import ClassVar, Final

from skerry import __version__
from skerry.gateway.configuration import condition
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Params
from skerry.gateway.methods.system import heartbeat, read_or
from skerry.model.ids import AgentId
from skerry.model.session import SessionEntry
from skerry.store import DATABASE, Reader, devices, outbox, sender_pairing, session_listing, tasks
from skerry.store.session_listing import SessionFilter

_RECENT: Final = 5
_MAX_QUEUES: Final = 100
_Counted = tuple[
    int,
    dict[AgentId, int],
    list[SessionEntry],
    dict[str, int],
    tuple[int, int],
    dict[str, tuple[int, str]],
]


class StatusParams(Params):
    """Parameters of `status`."""

    ignored: ClassVar = {
        "includeChannelSummary": "Channels report no status yet.",
        "includeCliProjection": "Every response has all details.",
    }


async def status(call: Call, _params: StatusParams) -> Json:
    """Returns the current activity of the gateway."""
    context = call.context
    config = context.config()
    model = (await context.models.status()).model
    now = context.clock.now_ms()

    def read(reader: Reader) -> _Counted:
        recent = session_listing.recent(reader, limit=2 * _RECENT)
        counts = {
            agent: session_listing.count(reader, SessionFilter(agent))
            for agent in config.agents.ids
        }
        waiting = len(devices.requests(reader, now)), len(sender_pairing.requests(reader, now))
        return (
            session_listing.count(reader),
            counts,
            recent,
            outbox.counts(reader),
            waiting,
            tasks.outcomes(reader),
        )

    empty: _Counted = (0, dict.fromkeys(config.agents.ids, 0), [], {}, (0, 0), {})
    numbers = await read_or(context, read, empty)
    count, counts, recent, undelivered, waiting, upkeep = numbers
    failing = await context.failing()
    window = model.context_window if model else None
    path = str(config.state_dir / DATABASE)
    rows = [_status_row(session, window, now) for session in recent]
    return {
        "runtimeVersion": __version__,
        "pid": os.getpid(),
        "uptimeMs": max(0, now - context.started_ms),
        "ready": not failing,
        "failing": failing,
        "configuration": condition(context.configuration, context.config().path),
        "storage": await context.storage(),
        "upkeep": {
            name: {"atMs": at, "outcome": outcome} for name, (at, outcome) in upkeep.items()
        },
        "heartbeat": {
            "defaultAgentId": config.agents.default_id,
            "agents": [heartbeat(config, agent) for agent in config.agents.ids],
        },
        "channelSummary": [
            f"{row['channel']}/{row['account']}: {row['state']}" for row in _channels(context)
        ],
        "channels": _channels(context),
        "queuedSystemEvents": context.system_events.texts(),
        "activeRuns": len(context.dispatcher.active()),
        "queue": _queue(context, now),
        "undelivered": undelivered,
        "budgets": context.budgets(),
        "plugins": _plugins(context),
        "toolProblems": [
            text for source in context.tool_sources().values() for text in source.problems
        ],
        "devices": {"pending": waiting[0]},
        "pairing": {"pending": waiting[1]},
        "sessions": {
            "paths": [path],
            "count": count,
            "defaults": {"model": model.id if model else None, "contextTokens": window},
            "recent": rows,
            "byAgent": [
                {
                    "agentId": agent,
                    "path": path,
                    "count": counts[agent],
                    "recent": [row for row in rows if row["agentId"] == agent],
                }
                for agent in config.agents.ids
            ],
        },
    }


def _queue(context: GatewayContext, now: int) -> Json:
    """Returns the active and waiting runs at `now`, and stopped ones that did not end."""
    report = context.dispatcher.queue()
    return {
        "at": now,
        "lanes": [
            {
                "name": lane.name,
                "running": lane.running,
                "waiting": lane.waiting,
                "limit": lane.limit,
            }
            for lane in report.lanes
        ],
        "sessions": [
            {
                "key": session.key,
                "mode": session.mode,
                "runId": session.run_id,
                "since": session.since,
                "waiting": session.waiting,
                "oldest": session.oldest,
            }
            for session in report.sessions[:_MAX_QUEUES]
        ],
        "stuck": [{"what": stuck.name, "since": stuck.since} for stuck in report.stuck],
    }


def _channels(context: GatewayContext) -> list[dict[str, Json]]:
    """Returns the accounts on chat platforms, each with its state."""
    return [
        {
            "channel": report.channel,
            "account": report.account,
            "enabled": report.is_enabled,
            "state": report.state.state.value,
            "message": report.state.message,
            "remedy": report.state.remedy,
            "name": report.state.name,
        }
        for report in (context.channels.reports() if context.channels else ())
    ]


def _plugins(context: GatewayContext) -> Json:
    """Returns the loaded and failed plugins, and their paused functions."""
    if context.plugins is None:
        return {"loaded": [], "failed": [], "resting": []}
    names: dict[str, list[Json]] = {"loaded": [], "failed": []}
    for report in context.plugins.reports:
        names.setdefault(report.status, []).append(report.id)
    resting = [
        f"{handler.plugin}: {handler.hook}"
        for handler in context.plugins.handlers()
        if handler.resting
    ]
    return {"loaded": names["loaded"], "failed": names["failed"], "resting": resting}


def _status_row(session: SessionEntry, window: int | None, now: int) -> dict[str, Json]:
    used = session.total_tokens
    return {
        "agentId": session.agent_id,
        "key": session.key,
        "kind": session.chat_type,
        "sessionId": session.session_id,
        "updatedAt": session.updated_at,
        "age": max(0, now - session.updated_at),
        "abortedLastRun": bool(session.aborted_last_run),
        "inputTokens": session.input_tokens,
        "outputTokens": session.output_tokens,
        "totalTokens": session.total_tokens,
        "totalTokensFresh": used > 0,
        "remainingTokens": max(0, window - used) if window else None,
        "percentUsed": min(100, round(100 * used / window)) if window else None,
        "contextTokens": window,
        "systemSent": session.tail > 0,
        "model": session.model,
        "flags": [f"id:{session.session_id}"],
    }


METHODS: Final = (Method("status", StatusParams, status),)
