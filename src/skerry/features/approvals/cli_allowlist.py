"""`skerry approvals allowlist`: the commands that run on a host without an approval."""

import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find

APPROVE: Final = ("operator.approvals",)
CHANGE: Final = ("operator.admin",)


def run(arguments: Namespace) -> int:
    """Runs `skerry approvals allowlist ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    action = arguments.action
    params = {"agentId": arguments.agent} if arguments.agent else {}
    if action != "list":
        params["pattern"] = arguments.pattern
    async with GatewayClient(address, scopes=CHANGE if action == "add" else APPROVE) as client:
        answer = await client.request(f"exec.allowlist.{action}", params)
    if arguments.json:
        show_json(answer)
    elif action == "list":
        _show(answer["patterns"])
    elif action == "remove":
        show(f"{answer['agentId']} now needs an approval for {answer['pattern']}.")
    else:
        outcome = "may run" if answer["added"] else "may run already"
        show(f"{answer['agentId']} {outcome}: {answer['pattern']}")
    return 0


def _show(patterns: list[dict[str, Any]]) -> None:
    if not patterns:
        show("The allowlist is empty; tools.exec.allowlist may have further patterns.")
        return
    lines: list[tuple[str, ...]] = [("AGENT", "PATTERN", "FROM", "LAST USED", "COMMAND")]
    lines += [
        (
            row["agentId"],
            one_line(row["pattern"]),
            row["source"],
            _time(row["lastUsedAtMs"]),
            row["lastUsedCommand"] or "-",
        )
        for row in patterns
    ]
    show(table(lines))


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "never"
    return local_time(milliseconds)
