"""Methods about the gateway itself: its health, the connected clients, the first snapshot."""

import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

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
from skerry.store import (
    DATABASE,
    Reader,
    session_listing,
)
from skerry.store.condition import Storage
from skerry.store.session_listing import SessionFilter

_RECENT: Final = 5
T = TypeVar("T")


class HealthParams(Params):
    """Parameters of `health`: `probe` requests a new report instead of the last one."""

    probe: bool = False


def health(call: Call, params: HealthParams) -> Json | Coroutine[Any, Any, Json]:
    """Returns the last report on the gateway's health, or a new one while the database fails."""
    context, report = call.context, call.context.health.report
    works = context.store.condition.storage is Storage.OK
    if params.probe or not works or not report.get("ok"):
        return refresh_health(context)
    return report


async def refresh_health(context: GatewayContext) -> Json:
    """Makes a new health report, stores it and returns it."""
    begin = time.perf_counter()
    config = context.config()
    path = str(config.state_dir / DATABASE)
    agents = config.agents.ids

    def read(reader: Reader) -> list[tuple[int, list[SessionEntry]]]:
        return [
            (
                session_listing.count(reader, SessionFilter(agent)),
                session_listing.recent(reader, SessionFilter(agent), limit=_RECENT),
            )
            for agent in (None, *agents)
        ]

    storage = await context.storage()
    empty_lists: list[tuple[int, list[SessionEntry]]] = [(0, []) for _ in (None, *agents)]
    total, *per_agent = await read_or(context, read, empty_lists)
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
                "heartbeat": heartbeat(config, agent),
                "sessions": _sessions(path, *counted, now),
            }
            for agent, counted in zip(agents, per_agent, strict=True)
        ],
        "sessions": _sessions(path, *total, now),
        "durationMs": round((time.perf_counter() - begin) * 1000),
    }
    context.health.update(report)
    return report


async def read_or(context: GatewayContext, read: Callable[[Reader], T], default: T) -> T:
    """Returns the result of `read`, or `default` of a damaged database: status must still work.

    Raises:
        StateError: the database cannot be read for another reason.
    """
    try:
        return await context.store.read(read)
    except StateError:
        if not context.store.condition.damage:
            raise
        return default


def heartbeat(config: Config, agent: AgentId) -> dict[str, Json]:
    """Returns the settings of an agent's heartbeats."""
    by_agent = {
        settings.id: settings.heartbeat for settings in config.agents.list if settings.heartbeat
    }
    beats = by_agent.get(agent) if by_agent else config.agents.defaults.heartbeat
    if beats is None or not beats.enabled or not beats.every:
        return {"agentId": agent, "enabled": False, "every": "0m", "everyMs": None}
    return {
        "agentId": agent,
        "enabled": True,
        "every": span(beats.every),
        "everyMs": beats.every,
        "prompt": beats.prompt or "",
        "target": beats.target,
        "ackMaxChars": beats.ack_max_chars,
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
    Method("system-presence", NoParams, system_presence),
)
