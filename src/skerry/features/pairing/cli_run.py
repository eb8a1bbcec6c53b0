"""`skerry pairing`: lists waiting senders of platforms, and stores the owner's decisions."""

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
_MAX_WORDS: Final = 2
_KEY: Final = "commands.ownerAllowFrom"


def run(arguments: Namespace) -> int:
    """Runs `skerry pairing ...`; returns the exit code.

    Raises:
        ClientError: `--owner` is passed for a gateway with another configuration.
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
        show(f"The decision about {arguments.channel}:{arguments.sender} was removed.")
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
    """Refuses `--owner` when the gateway does not use the local configuration."""
    state_dir, _ = locate(os.environ)
    if arguments.url or owner(state_dir / LOCK) is None:
        raise ClientError(
            f"--owner changes {_KEY} of this machine, but the gateway does not use "
            f"{state_dir}. No sender was approved.",
            "Run the command on the machine of the gateway, without --url.",
        )


def _person(answer: dict[str, Any]) -> str:
    request = answer["request"]
    return f"{request['channel']}:{request['senderId']}"


def _owners(person: str) -> list[str]:
    """Returns the owners of the configuration and the person."""
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
    """Returns the code, with the channel if it precedes the code.

    Raises:
        ClientError: there are more than two words.
    """
    if len(words) > _MAX_WORDS:
        message = f"`{' '.join(words)}` has more than a channel and a code."
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
        show("No sender is waiting, approved or rejected.")
    if requests:
        notice("Approve a sender: skerry pairing approve CODE. Reject: skerry pairing reject CODE")
        notice("If the sender is you: skerry pairing approve CODE --owner")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    account = f"{row['channel']}/{row['accountId']}"
    name = row["senderName"] or row["senderUsername"] or "-"
    return tuple(one_line(str(text)) for text in (account, row["senderId"], name))


def _show_decision(answer: dict[str, Any]) -> None:
    request = answer["request"]
    account, sender, _ = _cells(request)
    if answer["decision"] == "approved":
        show(f"{sender} may now write to {account} in direct chats.")
        if "owner" in answer:
            show(f"{one_line(answer['owner'])} is you: this chat has your memory and your tools.")
        else:
            owners = shlex.quote(one_line(json.dumps(_owners(_person(answer)))))
            notice(f"If this is you: skerry config set {_KEY} {owners}")
    else:
        show(f"{sender} was rejected at {account}, and receives no further code.")
