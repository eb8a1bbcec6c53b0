"""`skerry heartbeat`: shows the last check, and switches checks on and off."""

import os
from argparse import Namespace
from datetime import UTC, datetime

import anyio

from skerry.cli.render import one_line, show, show_json
from skerry.client.client import GatewayClient
from skerry.client.discover import find


def run(arguments: Namespace) -> int:
    """Runs `skerry heartbeat ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    reads = arguments.action == "last"
    async with GatewayClient(
        address, scopes=("operator.read",) if reads else ("operator.admin",)
    ) as client:
        if reads:
            answer = await client.request("last-heartbeat", {})
        else:
            enabled = arguments.action == "enable"
            answer = await client.request("set-heartbeats", {"enabled": enabled})
    if arguments.json:
        show_json(answer)
    elif not reads:
        show(f"Heartbeats are {'on' if answer['enabled'] else 'off'}.")
    elif answer is None:
        show("No heartbeat yet. They begin when HEARTBEAT.md names something to check.")
    else:
        at = datetime.fromtimestamp(answer["ts"] / 1000, UTC).astimezone()
        why = f": {answer['reason']}" if answer.get("reason") else ""
        show(f"{at:%Y-%m-%d %H:%M:%S} {answer['status']}{why}")
        if answer.get("preview"):
            show(one_line(answer["preview"]))
    return 0
