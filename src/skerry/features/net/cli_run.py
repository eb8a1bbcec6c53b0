"""`skerry net`: checks and fetches addresses like the tools of agents."""

import os
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.failure import FailedError
from skerry.cli.json_lines import BadLine, answer, lines
from skerry.cli.render import notice, one_line, plain, show
from skerry.config.load import load
from skerry.features.net.checking import InputError, checked, input_error, refusal
from skerry.features.net.fetching import NOT_FETCHED, answer_of, request_of
from skerry.net.safe_fetch import Fetched, FetchRequest, SafeClient
from skerry.policy.network import NetworkRules


def run(arguments: Namespace) -> int:
    """Runs `skerry net ...`; returns the exit code."""
    rules = load(os.environ, fetch=False).config.tools.web.fetch.ssrf_policy.rules
    if arguments.action == "fetch":
        return anyio.run(_fetch, arguments, rules)
    if arguments.stdin:
        for item in lines():
            answer(refusal(item) if isinstance(item, BadLine) else checked(item, rules))
        return 0
    item = {"id": None, "url": arguments.url, "dns": _resolved(arguments.resolve)}
    result = checked(item, rules)
    _show(result, as_json=arguments.json)
    if result["rule"] == "name-unresolved" and not item["dns"]:
        notice("This check resolves no names. Pass --resolve HOST=ADDR, or try: skerry net fetch")
    return 0


async def _fetch(arguments: Namespace, rules: NetworkRules) -> int:
    if not arguments.stdin:
        fetched = await _fetched(FetchRequest(arguments.url), rules)
        if arguments.body:
            show(plain(fetched.body.decode("utf-8", "replace")))
        else:
            _show(answer_of(None, fetched), as_json=arguments.json)
        return 0
    for item in lines():
        if isinstance(item, BadLine):
            answer(refusal(item) | NOT_FETCHED)
            continue
        try:
            request = request_of(item)
        except InputError as error:
            answer(input_error(item, error) | NOT_FETCHED)
            continue
        answer(answer_of(item.get("id"), await _fetched(request, rules)))
    return 0


async def _fetched(request: FetchRequest, rules: NetworkRules) -> Fetched:
    """Fetches with a separate client, so that lines share no connection and no resolution."""
    async with SafeClient(rules) as client:
        return await client.fetch(request)


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


def _show(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        answer(result)
    else:
        show(f"{result['verdict']}: {one_line(result['reason'])} [{result['rule']}]")
