"""`skerry outbox`: lists undelivered parts of replies, and sends or drops them."""

import os
from argparse import Namespace
from collections.abc import Collection
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, notice, one_line, plain, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find

READ: Final = ("operator.read",)
SCOPES: Final = ("operator.admin",)
_MAX_LISTED: Final = 1000
"""Limit of `outbox.list`."""
_DEAD: Final = ("failed", "unknown")


def run(arguments: Namespace) -> int:
    """Runs `skerry outbox ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = READ if arguments.action in {"list", "show"} else SCOPES
    async with GatewayClient(address, scopes=scopes) as client:
        match arguments.action:
            case "list":
                await _list(client, arguments)
            case "show":
                await _show(client, arguments)
            case action:
                await _decide(client, arguments, action)
    return 0


async def _list(client: GatewayClient, arguments: Namespace) -> None:
    states = [arguments.state] if arguments.state else []
    params = {"states": states, "limit": _MAX_LISTED}
    parts = (await client.request("outbox.list", params))["parts"]
    if arguments.json:
        show_json(parts)
        return
    if not parts:
        message = f"No part is {arguments.state}." if states else "All parts are delivered."
        show(message)
        return
    lines: list[tuple[str, ...]] = [("PART", "STATE", "SINCE", "TRIED", "TO", "TEXT", "WHY")]
    lines += [_line(part) for part in parts]
    show(table(lines))
    if len(parts) == _MAX_LISTED:
        notice(f"These are the {_MAX_LISTED} oldest parts; there may be more.")
    if any(part["state"] in _DEAD for part in parts):
        notice("Send a part again: skerry outbox retry PART. Drop it: skerry outbox drop PART")


def _line(part: dict[str, Any]) -> tuple[str, ...]:
    texts = (part["text"], part["error"] or "-")
    return (
        str(part["serial"]),
        part["state"],
        local_time(part["createdAtMs"]),
        str(part["attempts"]),
        _to(part),
        *(one_line(text)[:40] for text in texts),
    )


async def _show(client: GatewayClient, arguments: Namespace) -> None:
    part = (await client.request("outbox.get", {"serial": arguments.serial}))["part"]
    if arguments.json:
        show_json(part)
        return
    facts = [
        ("state", part["state"]),
        ("to", _to(part)),
        ("of run", part["runId"]),
        ("since", local_time(part["createdAtMs"])),
        ("tried", str(part["attempts"])),
        ("why", one_line(part["error"] or "-")),
    ]
    if part["retryAtMs"]:
        facts.append(("again at", local_time(part["retryAtMs"])))
    show(table(facts))
    show()
    show(plain(part["text"]))


async def _decide(client: GatewayClient, arguments: Namespace, action: str) -> None:
    serials: list[int] = []
    following = [arguments.serial] if arguments.serial else await _failed(client, serials)
    while following:
        for serial in following:
            await client.request(f"outbox.{action}", {"serial": serial})
        serials += following
        following = [] if arguments.serial else await _failed(client, serials)
    if arguments.json:
        show_json({"ok": True, "parts": serials})
        return
    outcome = "will be sent again" if action == "retry" else "was dropped"
    for serial in serials:
        show(f"Part {serial} {outcome}.")
    if not serials:
        show("No part has failed.")


async def _failed(client: GatewayClient, excluded: Collection[int]) -> list[int]:
    """Returns the numbers of failed parts, a list at a time; a part may fail again meanwhile."""
    params = {"states": ["failed"], "limit": _MAX_LISTED}
    parts = (await client.request("outbox.list", params))["parts"]
    return [part["serial"] for part in parts if part["serial"] not in excluded]


def _to(part: dict[str, Any]) -> str:
    return one_line("/".join(str(part["to"][key]) for key in ("channel", "account", "peer")))
