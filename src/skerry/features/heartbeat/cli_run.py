"""`skerry heartbeat`: shows the checks of agents, and switches them on and off."""

import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.features.heartbeat.reasons import REASONS

_READS: Final = {"status": "heartbeat.status", "last": "last-heartbeat"}
_MINUTE_MS: Final = 60_000


def run(arguments: Namespace) -> int:
    """Runs `skerry heartbeat ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    method = _READS.get(arguments.action)
    scope = "operator.read" if method else "operator.admin"
    async with GatewayClient(address, scopes=(scope,)) as client:
        if method:
            answer = await client.request(method, {})
        else:
            enabled = arguments.action == "enable"
            answer = await client.request("set-heartbeats", {"enabled": enabled})
    if arguments.json:
        show_json(answer)
    elif arguments.action == "status":
        _show_status(answer)
    elif method:
        _show_last(answer)
    else:
        show(f"Heartbeats are {'on' if answer['enabled'] else 'off'}.")
    return 0


def _show_status(answer: dict[str, Any]) -> None:
    if not answer["enabled"]:
        show("Heartbeats are off. Switch them on: skerry heartbeat enable")
    elif not answer["agents"]:
        show("No agent has heartbeats. Set agents.defaults.heartbeat.every, such as 30m.")
    lines: list[tuple[str, ...]] = [("AGENT", "EVERY", "STATE", "LAST")]
    for row in answer["agents"]:
        state = "stopped after failures" if row["stopped"] else "on" if answer["enabled"] else "off"
        lines.append((row["agentId"], _span(row["everyMs"]), state, _event_text(row["last"])))
    if answer["agents"]:
        show(table(lines))


def _show_last(answer: dict[str, Any] | None) -> None:
    show(_event_text(answer) if answer else _NONE)
    if answer and answer.get("preview"):
        show(one_line(answer["preview"]))


_NONE: Final = "No heartbeat yet. They begin when HEARTBEAT.md names something to check."


def _event_text(event: dict[str, Any] | None) -> str:
    """Returns time, status and reason of a check; `-` without one."""
    if not event:
        return "-"
    reason = event.get("reason")
    suffix = f": {REASONS.get(reason, reason)}" if reason else ""
    return f"{local_time(event['ts'], seconds=True)} {event['status']}{suffix}"


def _span(milliseconds: int) -> str:
    minutes = milliseconds / _MINUTE_MS
    return f"{minutes:g}m"
