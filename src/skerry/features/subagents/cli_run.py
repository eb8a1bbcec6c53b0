"""`skerry subagents`: shows the sub-agents as a tree, and addresses or stops them."""

import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find

READ: Final = ("operator.read",)
WRITE: Final = ("operator.read", "operator.write")
_WIDTH: Final = 48


def run(arguments: Namespace) -> int:
    """Runs `skerry subagents ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = WRITE if arguments.action in {"send", "kill"} else READ
    async with GatewayClient(address, scopes=scopes) as client:
        match arguments.action:
            case "list":
                params: dict[str, Any] = {"days": arguments.days}
                if arguments.session:
                    params["sessionKey"] = arguments.session
                _list((await client.request("subagents.list", params))["subagents"], arguments)
                return 0
            case "log":
                params = {"target": arguments.target, "limit": arguments.limit}
            case "send":
                params = {"target": arguments.target, "message": arguments.message}
            case _:
                params = {"target": arguments.target}
        answer = await client.request(f"subagents.{arguments.action}", params)
    return _show(answer, arguments)


def _list(rows: list[dict[str, Any]], arguments: Namespace) -> None:
    if arguments.json:
        show_json(rows)
        return
    if not rows:
        show("No sub-agent is running, and none was started in this time.")
        return
    lines: list[tuple[str, ...]] = [("ID", "STATE", "SINCE", "PARENT", "LABEL", "TASK")]
    lines += [
        (
            row["key"].rpartition(":")[2][:8],
            "running" if row["state"] == "running" else row["status"] or row["state"],
            local_time(row["createdAtMs"]),
            one_line(row["parentKey"]),
            one_line(row["label"] or "-"),
            one_line(row["task"])[:_WIDTH],
        )
        for row in rows
    ]
    show(table(lines))


def _show(answer: dict[str, Any], arguments: Namespace) -> int:
    failed = answer.get("status") in {"error", "timeout"}
    if arguments.json:
        show_json(answer.get("subagent", answer) if arguments.action == "info" else answer)
        return 1 if failed else 0
    match arguments.action:
        case "info":
            row = answer["subagent"]
            show(table([(name, one_line(str(row[name]))) for name in row if row[name] is not None]))
        case "log":
            for message in answer["messages"]:
                tools = f" [{', '.join(message['tools'])}]" if message.get("tools") else ""
                show(f"{message['role']}{tools}: {one_line(message['text'])}")
            if not answer["messages"]:
                show("Its session has no message.")
        case "send":
            text = answer.get("reply") or answer.get("error")
            show(text or "The answer takes longer. Show it later: skerry subagents log ID")
        case _:
            stopped = answer["stopped"]
            show(f"Stopped {stopped[0]}." if stopped else "The sub-agent is not running.")
    return 1 if failed else 0
