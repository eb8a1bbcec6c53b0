"""`skerry mcp`: adds, checks and removes MCP servers, and trusts their tools."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from difflib import unified_diff
from typing import Any, Final

import anyio

from skerry.cli.config_change import change
from skerry.cli.failure import FailedError
from skerry.cli.options import output
from skerry.cli.render import notice, one_line, show, show_json, styled, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.load import load_good
from skerry.features.mcp.cli import server_options
from skerry.features.mcp.config import NAME, McpConfig

READ: Final = ("operator.read",)
ADMIN: Final = ("operator.admin",)
USAGE: Final = 2
HELD: Final = frozenset({"new", "changed"})
_STYLES: Final = {
    "connected": "green",
    "changed": "yellow",
    "failed": "red",
    "new": "yellow",
    "trusted": "green",
}


def run(arguments: Namespace) -> int:
    """Runs `skerry mcp ...`; returns the exit code."""
    match arguments.action:
        case "add":
            return _add(arguments)
        case "remove":
            return _remove(arguments)
        case "list":
            return anyio.run(_list, arguments)
        case "trust":
            return anyio.run(_trust, arguments)
        case _:
            return anyio.run(_tools, arguments)


def _configured() -> McpConfig:
    config = load_good(os.environ, fetch=False).config
    return config.own_section(McpConfig) or McpConfig.model_construct()


def _add(arguments: Namespace) -> int:
    name, words = arguments.server, _program(arguments)
    if NAME.fullmatch(name) is None:
        raise FailedError(
            f"{name!r} is not a name of a server.", "Use a-z, 0-9 and -, at most 24.", USAGE
        )
    if bool(words) is bool(arguments.url):
        example = f"skerry mcp add {name} -- npx -y some-server"
        raise FailedError("Pass either a program after --, or --url.", f"Such as: {example}", USAGE)
    if name in _configured().servers and not arguments.force:
        raise FailedError(f"mcp.servers has a server {name!r} already.", "Replace it: --force")
    settings: dict[str, Any] = {"url": arguments.url} if arguments.url else {"command": words[0]}
    settings |= {
        "args": words[1:],
        "cwd": arguments.cwd,
        "transport": arguments.transport,
        "env": _pairs(arguments.env, "=", "--env"),
        "headers": _pairs(arguments.header, ":", "--header"),
    }
    entry = {key: value for key, value in settings.items() if value}
    code = change({f"mcp.servers.{name}": entry}, quiet=arguments.json)
    if code == 0 and arguments.json:
        show_json({"ok": True, "name": name})
    elif code == 0:
        notice(f"Check it: skerry mcp test {name}")
    return code


def _program(arguments: Namespace) -> list[str]:
    """Returns the words of the program; reads the options between the name and `--`."""
    words: list[str] = arguments.words
    if words and not words[0].startswith("-"):
        return words  # the parser has removed `--`
    options, program = words, list[str]()
    if "--" in words:
        position = words.index("--")
        options, program = words[:position], words[position + 1 :]
    parser = output(server_options(ArgumentParser(prog="skerry mcp add", allow_abbrev=False)))
    _, further = parser.parse_known_args(options, arguments)
    return [*further, *program]


def _pairs(texts: list[str], sign: str, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(sign)
        if not found:
            raise FailedError(
                f"{option} {text!r} has no {sign!r}.", f"Write NAME{sign}VALUE.", USAGE
            )
        pairs[name.strip()] = value.strip()
    return pairs


def _remove(arguments: Namespace) -> int:
    name = arguments.server
    servers = _configured().servers
    if name not in servers:
        names = ", ".join(servers) or "none"
        message = f"mcp.servers has no server {name!r}."
        raise FailedError(message, f"Name one of: {names}.")
    code = change({f"mcp.servers.{name}": None}, quiet=arguments.json)
    if code == 0 and arguments.json:
        show_json({"ok": True, "name": name})
    return code


async def _list(arguments: Namespace) -> int:
    async with GatewayClient(_address(arguments), scopes=READ) as client:
        answer = await client.request("mcp.list", {})
    if arguments.json:
        show_json(answer)
    elif not answer["servers"]:
        show("No MCP servers. Add one: skerry mcp add NAME -- COMMAND; see docs/guide/mcp.md.")
    else:
        lines = [("SERVER", "STATE", "TOOLS", "HELD", "KIND", "ADDRESS")]
        lines += [
            (
                row["name"],
                styled(row["state"], _STYLES.get(row["state"], "")),
                str(row["tools"]),
                str(row["held"]),
                row["kind"],
                one_line(row["address"]),
            )
            for row in answer["servers"]
        ]
        show(table(lines))
        for row in answer["servers"]:
            if row["reason"]:
                notice(f"{row['name']}: {one_line(row['reason'])}")
            if row["held"]:
                notice(f"{row['name']}: tools are held back: skerry mcp trust {row['name']}")
    return 0


async def _tools(arguments: Namespace) -> int:
    scopes = ADMIN if arguments.action == "test" else READ
    async with GatewayClient(_address(arguments), scopes=scopes) as client:
        answer = await client.request(f"mcp.{arguments.action}", {"server": arguments.server})
    if arguments.json:
        show_json(answer)
        return 0
    if not answer["tools"]:
        show(
            f"No tools of {arguments.server} are known. Connect: skerry mcp test {arguments.server}"
        )
    else:
        lines = [("TOOL", "STATE", "APPROVAL", "DESCRIPTION")]
        lines += [
            (
                one_line(row["offeredAs"] or row["name"]),
                styled(row["state"], _STYLES.get(row["state"], "")),
                row["approval"] if row["offeredAs"] else "-",
                one_line(row["description"])[:60],
            )
            for row in answer["tools"]
        ]
        show(table(lines))
    for reason in answer["unusable"]:
        notice(f"not usable: {one_line(reason)}")
    if any(row["state"] in HELD for row in answer["tools"]):
        notice(f"Tools are held back: skerry mcp trust {arguments.server}")
    return 0


async def _trust(arguments: Namespace) -> int:
    async with GatewayClient(_address(arguments), scopes=ADMIN) as client:
        answer = await client.request("mcp.test", {"server": arguments.server})
        held = [row for row in answer["tools"] if row["state"] in HELD]
        if arguments.tool:
            held = [row for row in held if row["name"] in arguments.tool]
        if not held:
            trusted: list[str] = []
        else:
            if not arguments.json:
                _show_held(held)
            _confirm(arguments)
            digests = {row["name"]: row["digest"] for row in held}
            params = {"server": arguments.server, "tools": digests}
            trusted = (await client.request("mcp.trust", params))["trusted"]
    if arguments.json:
        show_json({"server": arguments.server, "trusted": trusted})
    else:
        show(f"Trusted: {', '.join(map(one_line, trusted)) or 'nothing; no tool is held back'}.")
    return 0


def _show_held(held: list[dict[str, Any]]) -> None:
    for row in held:
        show(f"{one_line(row['name'])} ({row['state']})")
        if row["trustedDescription"] is not None:
            show(f"  before: {one_line(row['trustedDescription'])}")
        show(f"  now:    {one_line(row['description'])}")
        show(f"  parameters: {', '.join(map(one_line, row['parameters'])) or 'none'}")
        for line in _schema_changes(row):
            show(f"    {line}")
        if row["readOnly"] and not row.get("trustedReadOnly"):
            notice("The server declares that the tool changes nothing; it may lie.")
        if row["suspicions"]:
            notice(f"It looks like instructions to a model: {', '.join(row['suspicions'])}")


def _schema_changes(row: dict[str, Any]) -> list[str]:
    """Returns the added (`+`) and removed (`-`) lines of the schema, which the model reads too."""
    before, now = (_schema_lines(row.get(key)) for key in ("trustedSchema", "schema"))
    changes = [*unified_diff(before, now, n=0, lineterm="")][2:]  # without the names of files
    return [f"{line[0]} {one_line(line[1:])}" for line in changes if not line.startswith("@@")]


def _schema_lines(schema: Any) -> list[str]:
    return [] if schema is None else json.dumps(schema, indent=1, ensure_ascii=False).splitlines()


def _confirm(arguments: Namespace) -> None:
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise FailedError(
            "Refusing to trust tools without confirmation: stdin is not a terminal.", "Pass --yes."
        )
    if input("Trust these tools? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise FailedError("Nothing was trusted.", "")


def _address(arguments: Namespace) -> Any:
    return find(os.environ, url=arguments.url, token=arguments.token)
