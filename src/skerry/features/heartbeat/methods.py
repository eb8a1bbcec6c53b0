"""Methods for heartbeats: their state, the last check, and the switch of all."""

from typing import Final

import msgspec
from msgspec.structs import replace

from skerry.features.heartbeat import tables
from skerry.features.heartbeat.reasons import REASONS
from skerry.features.heartbeat.rules import ALL, HeartbeatState, decoded, settings
from skerry.gateway.frames import Json, raw
from skerry.gateway.method import Call, Method, NoParams, Params
from skerry.store import Unit


class SetHeartbeatsParams(Params):
    """Parameters of `set-heartbeats`."""

    enabled: bool


async def heartbeat_status(call: Call, _params: NoParams) -> Json:
    """Returns the switch of all heartbeats, and interval, state and last check of each agent.

    `reasons` maps reasons of checks to texts.
    """
    bodies = await call.context.store.read(tables.all_bodies)
    agents: list[Json] = []
    for agent, config in settings(call.context.config()).items():
        state = decoded(bodies.get(agent))
        row: dict[str, Json] = {
            "agentId": agent,
            "everyMs": config.every,
            "target": config.target,
            "stopped": state.stopped,
            "failures": state.failures,
            "lastLookAtMs": state.ticked_at or None,
            "last": raw(state.last),
        }
        agents.append(row)
    enabled = decoded(bodies.get(ALL)).enabled
    return {"enabled": enabled, "agents": agents, "reasons": dict(REASONS)}


async def last_heartbeat(call: Call, _params: NoParams) -> Json:
    """Returns the last heartbeat of any agent, `null` without one."""
    bodies = await call.context.store.read(tables.all_bodies)
    last = [state.last for body in bodies.values() if (state := decoded(body)).last]
    return raw(max(last, key=lambda event: int(str(event["ts"]))) if last else None)


async def set_heartbeats(call: Call, params: SetHeartbeatsParams) -> Json:
    """Switches the heartbeats of all agents on or off, over restarts; clears the failure counts."""

    def write(unit: Unit) -> None:
        for agent, body in tables.all_bodies(unit).items():
            state = replace(decoded(body), failures=0, stopped=False)
            tables.put(unit, agent, msgspec.json.encode(state))
        tables.put(unit, ALL, msgspec.json.encode(HeartbeatState(enabled=params.enabled)))

    await call.context.store.write(write)
    call.context.signals.set("heartbeat")
    return {"ok": True, "enabled": params.enabled}


METHODS: Final = (
    Method("heartbeat.status", NoParams, heartbeat_status),
    Method("last-heartbeat", NoParams, last_heartbeat),
    Method("set-heartbeats", SetHeartbeatsParams, set_heartbeats),
)
