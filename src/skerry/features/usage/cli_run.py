"""`skerry usage`: prints the usage of model calls, and the remaining budgets."""

import os
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.features.usage.report import report

_NO_CALLS = "No model was called in these days. Start a chat: skerry chat"


def run(arguments: Namespace) -> int:
    """Runs `skerry usage`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    params: dict[str, Any] = {"days": arguments.days, "by": arguments.by}
    if arguments.agent:
        params["agentId"] = arguments.agent
    url, token = arguments.url, arguments.token
    used, running = await report(os.environ, params, url=url, token=token)
    if arguments.json:
        show_json(used | {"running": running})
        return 0
    _show(used)
    if not running:
        notice("No gateway is running, so this is read from its database, without budgets.")
    return 0


def _show(used: dict[str, Any]) -> None:
    first, last, zone = used["startDate"], used["endDate"], one_line(used["timeZone"])
    show(f"{first} to {last} ({zone})")
    if used["rows"]:
        show()
        rows: list[tuple[str, ...]] = [
            (used["by"].upper(), "CALLS", "IN", "OUT", "CACHE READ", "CACHE WRITE", "COST")
        ]
        rows += [_row(row["name"], row) for row in used["rows"]]
        if len(used["rows"]) > 1:
            rows.append(_row("together", used["totals"]))
        show(table(rows))
    else:
        show(_NO_CALLS)
    for line in uncounted_notes(used["totals"]):
        notice(line)
    for budget in used["budgets"]:
        show(f"{budget['budget']}: {one_line(budget['message'])}")


def uncounted_notes(totals: dict[str, Any]) -> list[str]:
    """Describes the calls that the sums leave out."""
    notes = []
    if totals["unpriced"]:
        notes.append(
            f"Calls without a known price, not in the cost: {totals['unpriced']}. Enter it in"
            " models.providers.<name>.models[].cost, or in models.json of the state directory."
        )
    if totals["uncounted"]:
        notes.append(
            "Calls without a token count of the provider:"
            f" {totals['uncounted']}. They failed, were stopped, or the provider does not count."
        )
    return notes


def _row(name: str, sums: dict[str, Any]) -> tuple[str, ...]:
    calls = f"{sums['calls']:,}"
    if sums["failed"]:
        calls += f" ({sums['failed']:,} failed)"
    counts = (sums["input"], sums["output"], sums["cacheRead"], sums["cacheWrite"])
    return one_line(name) or "-", calls, *(f"{count:,}" for count in counts), price(sums)


def price(sums: dict[str, Any]) -> str:
    """Describes a cost; unknown parts are named, not counted as zero."""
    if sums["unpriced"] and not sums["totalCost"]:
        return "unknown"
    suffix = " and more" if sums["unpriced"] else ""
    return f"${sums['totalCost']:.4f}{suffix}"
