"""`skerry usage`: what calls of models used, and what is left of the budgets."""

import os
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.features.usage.report import report

_NOTHING = "No model was called in these days. Say something: skerry chat."


def run(arguments: Namespace) -> int:
    """Runs `skerry usage`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    params: dict[str, Any] = {"days": arguments.days, "by": arguments.by}
    if arguments.agent:
        params["agentId"] = arguments.agent
    url, token = arguments.url, arguments.token
    found, running = await report(os.environ, params, url=url, token=token)
    if arguments.json:
        show_json(found | {"running": running})
        return 0
    _show(found)
    if not running:
        notice("No gateway runs: this is read from its database. Budgets are shown while it runs.")
    return 0


def _show(found: dict[str, Any]) -> None:
    first, last, zone = found["startDate"], found["endDate"], one_line(found["timeZone"])
    show(f"{first} to {last} ({zone})")
    if found["rows"]:
        show()
        rows: list[tuple[str, ...]] = [
            (found["by"], "calls", "in", "out", "cache read", "cache write", "cost")
        ]
        rows += [_row(one["name"], one) for one in found["rows"]]
        if len(found["rows"]) > 1:
            rows.append(_row("together", found["totals"]))
        show(table(rows))
    else:
        show(_NOTHING)
    for line in unknown(found["totals"]):
        notice(line)
    for one in found["budgets"]:
        show(f"{one['budget']}: {one_line(one['message'])}")


def unknown(totals: dict[str, Any]) -> list[str]:
    """Describes the calls that the sums leave out."""
    said = []
    if totals["unpriced"]:
        said.append(
            f"Calls without a known price, not in the cost: {totals['unpriced']}. Enter it in"
            " models.providers.<name>.models[].cost, or in models.json of the state directory."
        )
    if totals["uncounted"]:
        said.append(
            "Calls of which the provider did not say how many tokens they used:"
            f" {totals['uncounted']}. They broke off, were stopped, or it does not count."
        )
    return said


def _row(name: str, sums: dict[str, Any]) -> tuple[str, ...]:
    calls = f"{sums['calls']:,}"
    if sums["failed"]:
        calls += f" ({sums['failed']:,} failed)"
    counts = (sums["input"], sums["output"], sums["cacheRead"], sums["cacheWrite"])
    return one_line(name) or "-", calls, *(f"{count:,}" for count in counts), price(sums)


def price(sums: dict[str, Any]) -> str:
    """Returns a cost in words; what is not known is no zero."""
    if sums["unpriced"] and not sums["totalCost"]:
        return "unknown"
    more = " and more" if sums["unpriced"] else ""
    return f"${sums['totalCost']:.4f}{more}"
