"""`skerry message`: sends messages, polls and reactions over chat platforms."""

import os
import sys
import uuid
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import notice, show, show_json
from skerry.client.client import GatewayClient
from skerry.client.discover import find

SCOPES: Final = ("operator.write",)
FILES: Final = (*SCOPES, "operator.admin")
"""Scopes for a message with a file."""


def run(arguments: Namespace) -> int:
    """Runs `skerry message ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    method, params = _request(arguments)
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = FILES if "mediaUrl" in params else SCOPES
    async with GatewayClient(address, scopes=scopes) as client:
        answer = await client.request(method, params)
    if arguments.json:
        show_json(answer)
    elif arguments.action == "react":
        show("The reaction is set." if arguments.emoji else "The reaction is removed.")
    elif answer["status"] == "sent":
        show(f"Sent as {', '.join(answer['messageIds']) or 'a message without an id'}.")
    else:
        show("The platform has not accepted the message yet; it is in the outbox.")
        notice("See the time of the next attempt: skerry outbox list")
    return 0


def _request(arguments: Namespace) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {"to": arguments.to}
    named = {
        "channel": arguments.channel,
        "accountId": arguments.account,
        "threadId": arguments.thread,
    }
    params |= {key: value for key, value in named.items() if value}
    match arguments.action:
        case "send":
            text = sys.stdin.read() if arguments.message == "-" else arguments.message
            params |= {"message": text, "silent": arguments.silent}
            files = {"mediaUrl": arguments.media, "agentId": arguments.agent}
            params |= {key: value for key, value in files.items() if value}
        case "poll":
            params |= {"question": arguments.question, "options": arguments.option}
            params["maxSelections"] = arguments.most
        case _:
            params |= {"messageId": arguments.id, "emoji": arguments.emoji}
            return "channels.react", params
    return arguments.action, params | {"idempotencyKey": arguments.key or str(uuid.uuid4())}
