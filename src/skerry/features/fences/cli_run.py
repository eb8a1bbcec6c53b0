"""`skerry files`: lists the files that a prompt includes as data only, and trusts them."""

import os
import sys
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, notice, one_line, plain, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.model.errors import ClientError

READ: Final = ("operator.read",)
ADMIN: Final = ("operator.admin",)


def run(arguments: Namespace) -> int:
    """Runs `skerry files ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = READ if arguments.action == "list" else ADMIN
    agent_params = {"agentId": arguments.agent} if arguments.agent else {}
    async with GatewayClient(address, scopes=scopes) as client:
        if arguments.action == "list":
            answer = await client.request("files.list", agent_params)
            _print(arguments, answer, lambda: _list(answer))
            return 0
        params = {**agent_params, "path": arguments.path}
        answer = await client.request("files.get", params)
        if arguments.action == "show":
            _print(arguments, answer, lambda: _show(answer["file"]))
            return 0
        digest = await _confirmed_hash(arguments, answer["file"])
        answer = await client.request("files.trust", {**params, "hash": digest})
    name = one_line(answer["file"]["path"])
    _print(arguments, answer, lambda: show(f"{name} is now trusted with its present content."))
    return 0


def _print(arguments: Namespace, answer: Any, render: Any) -> None:
    if arguments.json:
        show_json(answer)
    else:
        render()


async def _confirmed_hash(arguments: Namespace, file: dict[str, Any]) -> str:
    """Returns the hash of the content that the owner confirms.

    Raises:
        ClientError: stdin is not a terminal, or the answer was no.
    """
    if arguments.hash:
        return str(arguments.hash)
    if not sys.stdin.isatty():
        raise ClientError(
            f"Refusing to trust {arguments.path} without confirmation: stdin is not a terminal.",
            "Read it with `skerry files show`, then pass the printed --hash.",
        )
    _show(file)
    notice("Every later conversation follows this content as if you had written it.")
    answer = await anyio.to_thread.run_sync(input, "Trust this content? [y/N] ")
    if answer.strip().lower() not in {"y", "yes"}:
        raise ClientError(f"{arguments.path} was not trusted. Nothing was changed.")
    return str(file["hash"])


def _list(answer: dict[str, Any]) -> None:
    rows: list[tuple[str, ...]] = [("FILE", "WRITTEN BY", "ON", "WHY IT IS NOT TRUSTED")]
    rows += [_cells(file) for file in answer["files"]]
    if answer["files"]:
        show(table(rows))
        show("Print a file: skerry files show FILE. Trust it: skerry files trust FILE.")
    else:
        show("Every file that a prompt includes is trusted.")


def _cells(file: dict[str, Any]) -> tuple[str, str, str, str]:
    at = file["recordedAt"]
    day = local_time(at) if at else "-"
    writer, reason = file["writer"] or "unknown", file["reason"] or "it has"
    return one_line(file["path"]), one_line(writer), day, one_line(reason)


def _show(file: dict[str, Any]) -> None:
    name, writer, day, reason = _cells(file)
    show(plain(file["content"]).rstrip())
    notice(f"{name}: written by {writer}, recorded {day}, hash {file['hash']}")
    notice("The file is trusted." if file["trusted"] else f"The file is not trusted: {reason}.")
