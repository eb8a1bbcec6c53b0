"""`skerry devices`: lists, approves and revokes the machines that may connect."""

import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.model.errors import ClientError

SCOPES: Final = ("operator.admin",)
"""Scopes of the call: an approver must hold the scopes that the device requests."""
_SHORT: Final = 12


def run(arguments: Namespace) -> int:
    """Runs `skerry devices ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    async with GatewayClient(address, scopes=SCOPES) as client:
        listing = await client.request("device.pair.list")
        if arguments.action == "list":
            if arguments.json:
                show_json(listing)
            else:
                _show(listing)
            return 0
        answer = await _act(client, arguments, listing)
    if arguments.json:
        show_json(answer)
    else:
        _print_result(arguments.action, answer)
    return 0


async def _act(client: GatewayClient, arguments: Namespace, listing: Any) -> Any:
    match arguments.action:
        case "approve" | "reject" as action:
            rows = listing["pending"]
            request = _matching_id(rows, "requestId", arguments.id, latest=arguments.latest)
            return await client.request(f"device.pair.{action}", {"requestId": request})
        case "remove":
            device = _matching_id(listing["paired"], "deviceId", arguments.id)
            return await client.request("device.pair.remove", {"deviceId": device})
        case action:
            device = _matching_id(listing["paired"], "deviceId", arguments.id)
            params = {"deviceId": device, "role": arguments.role}
            return await client.request(f"device.token.{action}", params)


def _matching_id(
    rows: list[dict[str, Any]], key: str, prefix: str | None, *, latest: bool = False
) -> str:
    """Returns the id that begins with `prefix`; with `latest`, the id of the last row.

    Raises:
        ClientError: no id begins with it, or several do.
    """
    if latest and rows:
        return str(rows[-1][key])
    matches = [str(row[key]) for row in rows if prefix and str(row[key]).startswith(prefix.lower())]
    if len(matches) == 1:
        return matches[0]
    kind = "request" if key == "requestId" else "device"
    listed = ", ".join(match[:_SHORT] for match in matches)
    if latest and not prefix:
        message = "No device has requested a pairing."
    elif matches:
        message = f"Several {kind}s begin with {prefix!r}: {listed}."
    else:
        message = f"Unknown {kind} {prefix or ''!r}."
    raise ClientError(
        message,
        "List them: skerry devices list. The beginning of an id is enough.",
    )


def _show(listing: dict[str, Any]) -> None:
    pending, paired = listing["pending"], listing["paired"]
    if pending:
        lines: list[tuple[str, ...]] = [
            ("WAITS: REQUEST", "DEVICE", "FROM", "ROLE", "SCOPES", "CLIENT")
        ]
        lines += [(str(row["requestId"]), *_cells(row, row["role"])) for row in pending]
        show(table(lines))
        show()
    if paired:
        lines = [("PAIRED: DEVICE", "FROM", "ROLES", "SCOPES", "CLIENT")]
        lines += [_cells(row, " ".join(row["roles"]) or "revoked") for row in paired]
        show(table(lines))
    if not (pending or paired):
        show("No device is paired, and no request is pending.")
    if pending:
        notice("Approve a request: skerry devices approve REQUEST")


def _cells(row: dict[str, Any], role: str) -> tuple[str, ...]:
    scopes = " ".join(scope.removeprefix("operator.") for scope in row["scopes"])
    client = row.get("displayName") or row.get("clientId", "")
    cells = (row.get("remoteIp", ""), role, scopes or "-", f"{client} ({row.get('platform', '')})")
    return (str(row["deviceId"])[:_SHORT], *(one_line(str(text)) for text in cells))


def _print_result(action: str, answer: dict[str, Any]) -> None:
    device = str(answer.get("deviceId") or answer["device"]["deviceId"])[:_SHORT]
    match action:
        case "rotate":
            notice(f"The device {device} has a new token; all earlier ones are revoked:")
            show(one_line(str(answer["token"])))
        case "revoke":
            show(f"The device {device} has no access until it is approved again.")
        case _:
            past = {"approve": "approved", "reject": "rejected", "remove": "removed"}[action]
            show(f"The device {device} was {past}.")
