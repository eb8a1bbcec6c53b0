"""`skerry approvals`: lists and answers the tool calls that wait for a person."""

import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import notice, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find

SCOPES: Final = ("operator.approvals",)


def run(arguments: Namespace) -> int:
    """Runs `skerry approvals ...`; returns the exit code: 1 when an approval is not open."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    async with GatewayClient(address, scopes=SCOPES) as client:
        if arguments.action == "list":
            await _list(client, arguments)
        else:
            await _answer(client, arguments)
    return 0


async def _list(client: GatewayClient, arguments: Namespace) -> None:
    pending = [_flat(row) for row in await client.request("exec.approval.list")]
    if arguments.json:
        show_json({"pending": pending})
        return
    if not pending:
        show("No call waits for approval.")
        return
    lines: list[tuple[str, ...]] = [("ID", "AGENT", "HOST", "FOLDER", "COMMAND", "RULE")]
    lines += [
        (
            row["id"][:8],
            row["agentId"] or "-",
            row["host"] or "-",
            row["cwd"] or "-",
            row["command"],
            row["rule"],
        )
        for row in pending
    ]
    show(table(lines))
    notice("Allow a call once: skerry approvals allow ID. Deny it: skerry approvals deny ID")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    times = {"createdAtMs": row["createdAtMs"], "expiresAtMs": row["expiresAtMs"]}
    return {"id": row["id"], **row["request"], **times, "reached": row.get("reached")}


async def _answer(client: GatewayClient, arguments: Namespace) -> None:
    decision = "deny"
    if arguments.action == "allow":
        decision = "allow-always" if arguments.always else "allow-once"
    params = {"id": arguments.id, "decision": decision}
    await client.request("exec.approval.resolve", params)
    if arguments.json:
        show_json({"ok": True, "id": arguments.id, "decision": decision})
    else:
        outcome = "was denied" if decision == "deny" else "was allowed"
        show(f"The call {arguments.id} {outcome}.")
