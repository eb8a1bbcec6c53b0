"""`skerry webhooks`: lists webhooks, and shows the run that a post would start."""

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

import anyio

from skerry.cli.render import notice, one_line, plain, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.model.errors import SkerryError

READ: Final = ("operator.read",)


class BodyFileError(SkerryError):
    """The file of a body cannot be read."""

    code = "webhooks.body"


def run(arguments: Namespace) -> int:
    """Runs `skerry webhooks ...`; returns the exit code."""
    params: dict[str, Any] = {}
    if arguments.action == "test":
        headers = dict(_header(text) for text in arguments.header)
        params = {"name": arguments.name, "body": _body(arguments.file), "headers": headers}
    return anyio.run(_run, arguments, params)


async def _run(arguments: Namespace, params: dict[str, Any]) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    async with GatewayClient(address, scopes=READ) as client:
        answer = await client.request(f"webhooks.{arguments.action}", params)
    if arguments.json:
        show_json(answer)
    elif arguments.action == "test":
        show(table([("session", answer["sessionKey"]), ("model", answer["model"] or "-")]))
        show()
        show(plain(answer["message"]))
    else:
        _list(answer)
    return 0


def _list(answer: dict[str, Any]) -> None:
    if not answer["enabled"]:
        show("Webhooks are off. Set hooks.enabled and hooks.token; see docs/guide/webhooks.md.")
        return
    lines: list[tuple[str, ...]] = [("PATH", "ACTION", "PROOF", "AGENT", "BYTES", "A MINUTE")]
    lines += [
        (
            row["path"],
            row["action"],
            row["proof"],
            one_line(row["agentId"] or "-"),
            str(row["maxBodyBytes"]),
            str(row["ratePerMinute"]),
        )
        for row in answer["webhooks"]
    ]
    show(table(lines))
    if answer["weakToken"]:
        notice(f"hooks.token can be guessed: {answer['weakToken']}.")


def _body(name: str | None) -> str:
    """Returns the body of a post.

    Raises:
        BodyFileError: the file cannot be read.
    """
    if name is None:
        return "{}"
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        failed = BodyFileError(f"{name} cannot be read: {error}.")
        failed.remedy = "Pass a file with the body of a post, or - for standard input."
        raise failed from error


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip().lower(), value.strip()
