"""`skerry pairing`: senders of platforms who wait, and the owner's decisions about them."""

import os
from argparse import Namespace
from datetime import UTC, datetime
from typing import Any, Final

import anyio

from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.model.errors import ClientError

READ: Final = ("operator.read",)
SCOPES: Final = ("operator.pairing",)
_MOST_WORDS: Final = 2


def run(arguments: Namespace) -> int:
    """Runs `skerry pairing ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    params = _params(arguments)
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = READ if arguments.action == "list" else SCOPES
    async with GatewayClient(address, scopes=scopes) as client:
        answer = await client.request(f"channels.pairing.{arguments.action}", params)
    if arguments.json:
        show_json(answer)
    elif arguments.action == "list":
        _list(answer)
    elif arguments.action == "remove":
        show(f"The decision about {arguments.channel}:{arguments.sender} is forgotten.")
    else:
        _show_decision(answer)
    return 0


def _params(arguments: Namespace) -> dict[str, Any]:
    params: dict[str, Any] = {}
    if arguments.account:
        params["accountId"] = arguments.account
    match arguments.action:
        case "list":
            named: dict[str, Any] = {"channel": arguments.channel} if arguments.channel else {}
        case "remove":
            named = {"channel": arguments.channel, "senderId": arguments.sender}
        case action:
            named = _coded(arguments.words)
            if action == "approve" and arguments.notify:
                named["notify"] = True
    return params | named


def _coded(words: list[str]) -> dict[str, Any]:
    """Returns the code, with the channel if one was given before it.

    Raises:
        ClientError: there are more words.
    """
    if len(words) > _MOST_WORDS:
        message = f"`{' '.join(words)}` is more than a channel and a code."
        raise ClientError(message, "Write: skerry pairing approve [CHANNEL] CODE")
    *channel, code = words
    return {"code": code} | ({"channel": channel[0]} if channel else {})


def _list(answer: dict[str, Any]) -> None:
    requests, senders = answer["requests"], answer["senders"]
    if requests:
        lines: list[tuple[str, ...]] = [("WAITS: CODE", "CHANNEL", "SENDER", "NAME", "UNTIL")]
        lines += [(row["code"], *_cells(row), _time(row["expiresAtMs"])) for row in requests]
        show(table(lines))
        show()
    if senders:
        lines = [("DECIDED", "CHANNEL", "SENDER", "NAME", "SINCE")]
        lines += [(row["state"], *_cells(row), _time(row["decidedAtMs"])) for row in senders]
        show(table(lines))
    if not (requests or senders):
        show("No sender waits, and none was approved or rejected.")
    if requests:
        notice("To approve one: skerry pairing approve CODE. To refuse: skerry pairing reject CODE")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    where = f"{row['channel']}/{row['accountId']}"
    name = row["senderName"] or row["senderUsername"] or "-"
    return tuple(one_line(str(text)) for text in (where, row["senderId"], name))


def _show_decision(answer: dict[str, Any]) -> None:
    request = answer["request"]
    where, sender, _ = _cells(request)
    if answer["decision"] == "approved":
        show(f"{sender} may write to {where} in direct chats now.")
        owner = one_line(f"{request['channel']}:{request['senderId']}")
        notice(f'If this is you, add "{owner}" to commands.ownerAllowFrom.')
    else:
        show(f"{sender} is refused at {where}, and gets no further code.")


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"
