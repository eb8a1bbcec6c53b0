"""`skerry net`: checks addresses as the tools of agents do."""

import os
from argparse import Namespace
from typing import Any

from skerry.cli.failure import FailedError
from skerry.cli.json_lines import BadLine, answer, lines
from skerry.cli.render import one_line, show
from skerry.config.load import load
from skerry.features.net.checking import checked


def run(arguments: Namespace) -> int:
    """Runs `skerry net ...`; returns the exit code."""
    rules = load(os.environ, fetch=False).config.tools.web.fetch.ssrf_policy.rules
    if arguments.stdin:
        for item in lines():
            answer(item.answer if isinstance(item, BadLine) else checked(item, rules))
        return 0
    item = {"id": None, "url": arguments.url, "dns": _resolved(arguments.resolve)}
    _show(checked(item, rules), as_json=arguments.json)
    return 0


def _resolved(pairs: list[str]) -> dict[str, list[str]]:
    dns: dict[str, list[str]] = {}
    for pair in pairs:
        host, equals, address = pair.partition("=")
        if not (host and equals and address):
            raise FailedError(
                f"--resolve {pair!r} is not HOST=ADDR.", "Write --resolve example.com=93.184.216.34"
            )
        dns.setdefault(host, []).append(address)
    return dns


def _show(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        answer(told)
    else:
        show(f"{told['verdict']}: {one_line(told['reason'])} [{told['rule']}]")
