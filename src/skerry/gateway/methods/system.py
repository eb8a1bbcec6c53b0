"""Methods about the gateway itself: health, status, presence."""

import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, TypeVar

from skerry import __version__
from skerry.config.root import Config
from skerry.config.session import span
from skerry.gateway.configuration import condition
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams, Params
from skerry.infra.called import start_command
from skerry.model.errors import StateError
from skerry.model.ids import AgentId, SessionKey
from skerry.model.session import SessionEntry
from skerry.store import DATABASE, Reader, devices, listing, outbox, pairing, tasks
from skerry.store.condition import Storage
from skerry.store.listing import SessionFilter

_RECENT: Final = 5
_MOST_QUEUES: Final = 100
T = TypeVar("T")
_Counted = tuple[
    int,
    dict[AgentId, int],
    list[SessionEntry],
    dict[str, int],
    tuple[int, int],
    dict[str, tuple[int, str]],
]


class HealthParams(Params):
    """Parameters of `health`: `probe` requests a new report instead of the last one."""

    probe: bool = False


class StatusParams(Params):
    """Parameters of `status`."""

    ignored: ClassVar = {
        "includeChannelSummary": "Channels report no status yet.",
        "includeCliProjection": "Every answer has all known details.",
    }


def health(call: Call, params: HealthParams) -> Json | Coroutine[Any, Any, Json]:
    """Returns the last report on the gateway's health, or a new one while the database fails."""
    context, report = call.context, call.context.health.report
    works = context.store.condition.storage is Storage.OK
    if params.probe or not works or not report.get("ok"):
        return refresh_health(context)
    return report


async def refresh_health(context: GatewayContext) -> Json:
    """Makes a new health report, stores and returns it."""
    begin = time.perf_counter()
    config = context.config()
    path = str(config.state_dir / DATABASE)
    agents = config.agents.ids

    def read(reader: Reader) -> list[tuple[int, list[SessionEntry]]]:
        return [
            (
                listing.count(reader, SessionFilter(agent)),
                listing.recent(reader, SessionFilter(agent), limit=_RECENT),
            )
            for agent in (None, *agents)
        ]

    storage = await context.storage()
    nothing: list[tuple[int, list[SessionEntry]]] = [(0, []) for _ in (None, *agents)]
    total, *per_agent = await _read_or(context, read, nothing)
    now = context.clock.now_ms()
    report: dict[str, Json] = {
        "ok": storage["state"] == Storage.OK,
        "ts": now,
        "storage": storage,
        "channels": {},
        "channelOrder": [],
        "channelLabels": {},
        "heartbeatSeconds": 0,
        "configuration": condition(context.configuration, config.path),
        "budgets": context.budgets(),
        "startCommand": start_command(os.environ),
        "stuck": len(context.dispatcher.queue().stuck),
        "defaultAgentId": config.agents.default_id,
        "agents": [
            {
                "agentId": agent,
                "isDefault": agent == config.agents.default_id,
                "heartbeat": _heartbeat(config, agent),
                "sessions": _sessions(path, *counted, now),
            }
            for agent, counted in zip(agents, per_agent, strict=True)
        ],
        "sessions": _sessions(path, *total, now),
        "durationMs": round((time.perf_counter() - begin) * 1000),
    }
    context.health.update(report)
    return report


async def _read_or(context: GatewayContext, read: Callable[[Reader], T], nothing: T) -> T:
    """Returns the result of `read`, or `nothing` from a damaged database: status must still work.

    Raises:
        StateError: it cannot be read for another reason.
    """
    try:
        return await context.store.read(read)
    except StateError:
        if not context.store.condition.damage:
            raise
        return nothing


def _heartbeat(config: Config, agent: AgentId) -> dict[str, Json]:
    """Returns the settings of an agent's heartbeats."""
    own = {one.id: one.heartbeat for one in config.agents.list if one.heartbeat}
    found = own.get(agent) if own else config.agents.defaults.heartbeat
    if found is None or not found.enabled or not found.every:
        return {"agentId": agent, "enabled": False, "every": "0m", "everyMs": None}
    return {
        "agentId": agent,
        "enabled": True,
        "every": span(found.every),
        "everyMs": found.every,
        "prompt": found.prompt or "",
        "target": found.target,
        "ackMaxChars": found.ack_max_chars,
    }


def _sessions(path: str, count: int, recent: list[SessionEntry], now: int) -> Json:
    rows = [
        {
            "key": session.key,
            "updatedAt": session.updated_at,
            "age": max(0, now - session.updated_at),
        }
        for session in recent
    ]
    return {"path": path, "count": count, "recent": rows}


async def status(call: Call, _params: StatusParams) -> Json:
    """Returns the current activity of the gateway."""
    context = call.context
    config = context.config()
    model = (await context.models.status()).model
    now = context.clock.now_ms()

    def read(reader: Reader) -> _Counted:
        recent = listing.recent(reader, limit=2 * _RECENT)
        counts = {agent: listing.count(reader, SessionFilter(agent)) for agent in config.agents.ids}
        waiting = len(devices.requests(reader, now)), len(pairing.requests(reader, now))
        return (
            listing.count(reader),
            counts,
            recent,
            outbox.counts(reader),
            waiting,
            tasks.outcomes(reader),
        )

    nothing: _Counted = (0, dict.fromkeys(config.agents.ids, 0), [], {}, (0, 0), {})
    numbers = await _read_or(context, read, nothing)
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
        "upkeep": {name: {"atMs": at, "outcome": what} for name, (at, what) in upkeep.items()},
        "heartbeat": {
            "defaultAgentId": config.agents.default_id,
            "agents": [_heartbeat(config, agent) for agent in config.agents.ids],
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
            for session in report.sessions[:_MOST_QUEUES]
        ],
        "stuck": [{"what": stuck.what, "since": stuck.since} for stuck in report.stuck],
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
    """Returns which plugins are loaded, which failed, and which of their functions are paused."""
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


def system_presence(call: Call, _params: NoParams) -> Json:
    """Returns the connected clients."""
    return call.context.presence.entries()


def snapshot(context: GatewayContext) -> dict[str, Json]:
    """Returns the state of the gateway for a client that connects."""
    config = context.config()
    default = config.agents.default_id
    return {
        "presence": context.presence.entries(),
        "health": context.health.report,
        "stateVersion": {"presence": context.presence.version, "health": context.health.version},
        "uptimeMs": max(0, context.clock.now_ms() - context.started_ms),
        "configPath": str(config.path),
        "stateDir": str(config.state_dir),
        "sessionDefaults": {
            "defaultAgentId": default,
            "mainKey": "main",
            "mainSessionKey": str(SessionKey.main(default)),
            "scope": "per-sender",
        },
        "authMode": config.gateway.auth.mode.value,
    }


METHODS: Final = (
    Method("health", HealthParams, health),
    Method("status", StatusParams, status),
    Method("system-presence", NoParams, system_presence),
)
