"""`skerry gateway status` and `call`: ask a running gateway."""

import json
import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.failure import complain
from skerry.cli.render import model_line, one_line, plain, show, show_json, styled, table
from skerry.client.client import GatewayClient
from skerry.client.discover import Address, find
from skerry.client.models import model_status
from skerry.model.errors import ClientError

READ: Final = ("operator.read",)
USAGE: Final = 2


def run(arguments: Namespace) -> int:
    """Run `skerry gateway status` or `call`; return the exit code."""
    return anyio.run(_status if arguments.action == "status" else _call, arguments)


async def _status(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    try:
        found = await state(address)
    except ClientError as error:
        if not arguments.json:
            raise
        show_json({"running": False, "url": address.url, "reason": str(error)})
        return complain(str(error), error.remedy, "skerry gateway status")
    if arguments.json:
        show_json(found)
        return 0
    rows = [
        ("gateway", f"{styled('running', 'green')} at {address.url}"),
        ("page", _page(address)),
    ]
    labels = {"version": "version", "model": "modelState", "sessions": "sessions", "up": "uptime"}
    rows += [(label, one_line(str(found[key]))) for label, key in labels.items()]
    show(table(rows))
    return 0


def _page(address: Address) -> str:
    """Return the page's address as the gateway prints it: who asks here has the token anyway."""
    page = f"http{address.url.removeprefix('ws').rstrip('/')}/"
    return f"{page}#token={address.token}" if address.token else page


async def state(address: Address) -> dict[str, Any]:
    """Return what a running gateway says of itself: version, model, sessions, uptime.

    Raises:
        ClientError: none runs there, or it does not let this client in.
    """
    async with GatewayClient(address, scopes=READ) as client:
        health = await client.request("health")
        status = await client.request("status")
        model = await model_status(client)
    server, snapshot = client.hello.get("server", {}), client.hello.get("snapshot", {})
    return {
        "running": True,
        "url": address.url,
        "version": server.get("version", "unknown"),
        "model": model.model.ref if model.model else None,
        "modelState": model_line(model),
        "sessions": status.get("sessions", {}).get("count", 0),
        "uptime": f"{snapshot.get('uptimeMs', 0) // 1000} s",
        "health": health,
        "status": status,
    }


async def _call(arguments: Namespace) -> int:
    try:
        params = json.loads(arguments.params or "{}")
    except ValueError as error:
        return complain(f"--params is not JSON: {error}.", _QUOTES, "skerry gateway call", USAGE)
    if not isinstance(params, dict):
        return complain("--params must be an object.", _QUOTES, "skerry gateway call", USAGE)
    final = arguments.expect_final
    timeout = arguments.timeout or (600.0 if final else 30.0)
    async with GatewayClient(find(os.environ, url=arguments.url, token=arguments.token)) as client:
        payload = await client.request(
            arguments.method, params, timeout=timeout, expect_final=final
        )
    if arguments.json:
        show_json(payload)
    else:
        show(plain(json.dumps(payload, indent=2, ensure_ascii=False)))
    return 0


_QUOTES: Final = """Quote it for the shell: --params '{"sessionKey": "main"}'."""
