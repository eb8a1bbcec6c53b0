"""`skerry prompt show`: prints the prompt of a conversation, or the sizes of its parts."""

import os
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.render import notice, one_line, plain, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find


def run(arguments: Namespace) -> int:
    """Runs `skerry prompt show`; returns the exit code."""
    return anyio.run(_show, arguments)


async def _show(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    params = {"sessionKey": arguments.session}
    if arguments.agent:
        params["agentId"] = arguments.agent
    async with GatewayClient(address, scopes=("operator.read",)) as client:
        report: dict[str, Any] = await client.request("prompt.show", params)
    if arguments.json:
        show_json(report)
    elif arguments.sizes:
        _sizes(report)
    else:
        show(plain(report["systemPrompt"]))
        notice(f"{report['tokens']} tokens with the tools; pass --sizes for the size of each part.")
    return 0


def _sizes(report: dict[str, Any]) -> None:
    show(f"{one_line(report['sessionKey'])}, answered by {one_line(report['model'])}")
    show()
    rows = [("part", "characters", "about tokens", "share")]
    rows += [_row(part["name"], part, part["share"]) for part in report["parts"]]
    rows.append(_row("together", report, 1))
    show(table(rows))
    if report["files"]:
        show()
        rows = [("file", "characters", "in the prompt", "")]
        rows += [
            (
                one_line(file["name"]),
                str(file["rawChars"]),
                str(file["chars"]),
                "cut" if file["truncated"] else "",
            )
            for file in report["files"]
        ]
        show(table(rows))
    show()
    last = report["contextTokens"]
    used = f"; the last call had {last} tokens" if last else ""
    show(f"The conversation has {report['entries']} entries{used}.")
    for note in report["notes"]:
        show(one_line(note))


def _row(name: str, sizes: dict[str, Any], share: float) -> tuple[str, str, str, str]:
    return one_line(name), str(sizes["chars"]), str(sizes["tokens"]), f"{share:.0%}"
