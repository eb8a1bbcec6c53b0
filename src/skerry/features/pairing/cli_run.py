"""`skerry pairing`: senders of platforms who wait, and the owner's decisions about them."""

import json
import os
import shlex
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.config_change import change
from skerry.cli.render import local_time, notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.gateway import LOCK
from skerry.config.load import load_good, locate
from skerry.infra.lock import owner
from skerry.model.errors import ClientError

READ: Final = ("operator.read",)
SCOPES: Final = ("operator.pairing",)
_MOST_WORDS: Final = 2
_KEY: Final = "commands.ownerAllowFrom"


def run(arguments: Namespace) -> int:
    """Runs `skerry pairing ...`; returns the exit code.

    Raises:
        ClientError: `--owner` is given for a gateway that does not use the configuration here.
    """
    makes_owner = arguments.action == "approve" and arguments.owner
    if makes_owner:
        _check_local(arguments)
    answer = anyio.run(_ask, arguments)
    if makes_owner:
        person = _person(answer)
        code = change({_KEY: _owners(person)}, quiet=True)
        if code:
            return code
        answer["owner"] = person
    if arguments.json:
        show_json(answer)
    elif arguments.action == "list":
        _list(answer)
    elif arguments.action == "remove":
        show(f"The decision about {arguments.channel}:{arguments.sender} is forgotten.")
    else:
        _show_decision(answer)
    return 0


async def _ask(arguments: Namespace) -> dict[str, Any]:
    params = _params(arguments)
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = READ if arguments.action == "list" else SCOPES
    async with GatewayClient(address, scopes=scopes) as client:
        answer: dict[str, Any] = await client.request(
            f"channels.pairing.{arguments.action}", params
        )
    return answer


def _check_local(arguments: Namespace) -> None:
    """Refuses `--owner` where the configuration here is not that of the gateway that is asked."""
    state_dir, _ = locate(os.environ)
    if arguments.url or owner(state_dir / LOCK) is None:
        raise ClientError(
            f"--owner changes {_KEY} of this machine, and the gateway that is asked does not use "
            f"{state_dir}. Nobody was approved.",
            "Run it where the gateway runs, without --url.",
        )


def _person(answer: dict[str, Any]) -> str:
    request = answer["request"]
    return f"{request['channel']}:{request['senderId']}"


def _owners(person: str) -> list[str]:
    """Returns the owners of the configuration with one more."""
    present = load_good(os.environ, fetch=False).config.commands.owner_allow_from
    return list(dict.fromkeys([*map(str, present), person]))


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
        lines: list[tuple[str, ...]] = [("CODE", "CHANNEL", "SENDER", "NAME", "UNTIL")]
        lines += [(row["code"], *_cells(row), local_time(row["expiresAtMs"])) for row in requests]
        show(table(lines))
        show()
    if senders:
        lines = [("DECIDED", "CHANNEL", "SENDER", "NAME", "SINCE")]
        lines += [(row["state"], *_cells(row), local_time(row["decidedAtMs"])) for row in senders]
        show(table(lines))
    if not (requests or senders):
        show("No sender waits, and none was approved or rejected.")
    if requests:
        notice("To approve one: skerry pairing approve CODE. To refuse: skerry pairing reject CODE")
        notice("If it is you: skerry pairing approve CODE --owner")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    where = f"{row['channel']}/{row['accountId']}"
    name = row["senderName"] or row["senderUsername"] or "-"
    return tuple(one_line(str(text)) for text in (where, row["senderId"], name))


def _show_decision(answer: dict[str, Any]) -> None:
    request = answer["request"]
    where, sender, _ = _cells(request)
    if answer["decision"] == "approved":
        show(f"{sender} may write to {where} in direct chats now.")
        if "owner" in answer:
            show(f"{one_line(answer['owner'])} is you: this chat has your memory and your tools.")
        else:
            owners = shlex.quote(one_line(json.dumps(_owners(_person(answer)))))
            notice(f"If this is you: skerry config set {_KEY} {owners}")
    else:
        show(f"{sender} is refused at {where}, and gets no further code.")
