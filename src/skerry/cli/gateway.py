"""`skerry gateway status` and `call`: send requests to a running gateway."""

import json
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import anyio

from skerry.cli.failure import FailedError, complain
from skerry.cli.render import model_line, one_line, plain, show, show_json, styled, table
from skerry.client.client import UNKNOWN_METHOD, GatewayClient
from skerry.client.discover import GatewayAddress, find
from skerry.client.models import model_status
from skerry.infra.features import FEATURES
from skerry.infra.spelling import spelt_like
from skerry.model.errors import ClientError, GatewayRefusedError

READ: Final = ("operator.read",)
USAGE: Final = 2


def run(arguments: Namespace) -> int:
    """Runs `skerry gateway status` or `call`; returns the exit code."""
    return anyio.run(_status if arguments.action == "status" else _call, arguments)


async def _status(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    try:
        report = await state(address)
    except ClientError as error:
        if not arguments.json:
            raise
        show_json({"running": False, "url": address.url, "reason": str(error)})
        return complain(str(error), error.remedy, "skerry gateway status")
    if arguments.json:
        show_json(report)
        return 0
    rows = [
        ("gateway", f"{styled('running', 'green')} at {address.url}"),
        ("page", f"{page_of(address)} (skerry open)"),
    ]
    labels = {"version": "version", "model": "modelState", "sessions": "sessions", "up": "uptime"}
    rows += [(label, one_line(str(report[key]))) for label, key in labels.items()]
    if channels := _channels(report["status"].get("channels", ())):
        rows.append(("channels", channels))
    rows += _queue(report["status"].get("queue", {}))
    if plugins := _plugins(report["status"].get("plugins", {})):
        rows.append(("plugins", plugins))
    show(table(rows))
    for notice in report["attention"]:
        problem, remedy = one_line(notice["message"]), one_line(notice["remedy"])
        show(f"{styled('look:', 'yellow')} {problem} Try: {remedy}")
    return 0


def page_of(address: GatewayAddress) -> str:
    """Returns the address of the page, without a token."""
    return f"http{address.url.removeprefix('ws').rstrip('/')}/"


async def state(address: GatewayAddress) -> dict[str, Any]:
    """Returns the state of a running gateway: version, model, sessions, uptime.

    Raises:
        ClientError: no gateway runs there, or it refuses this client.
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
        "uptime": duration(snapshot.get("uptimeMs", 0)),
        "authMode": snapshot.get("authMode"),
        "attention": [
            {"message": message, "remedy": remedy} for message, remedy in attention(status)
        ],
        "health": health,
        "status": status,
    }


def duration(milliseconds: int) -> str:
    """Returns a time in its two largest units: `3 d 4 h`; 61 s is `1 min 1 s`."""
    seconds = milliseconds // 1000
    parts = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def attention(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the problems that a person must solve, each with its remedy."""
    yield from _configuration(status.get("configuration", {}))
    yield from _storage(status.get("storage", {}))
    plugins = status.get("plugins", {})
    if failed := plugins.get("failed"):
        yield f"Plugins that failed: {', '.join(failed)}.", "skerry plugins list"
    if resting := plugins.get("resting"):
        yield (
            f"Functions of plugins that are paused after failures: {', '.join(resting)}.",
            "skerry plugins list",
        )
    yield from _people(status)
    for stuck in status.get("queue", {}).get("stuck", ()):
        yield f"{stuck['what']} was cancelled and still runs.", "skerry doctor"
    for stuck in status.get("budgets", ()):
        if stuck["state"] != "ok":
            yield f"{stuck['budget']}: {stuck['message']}.", "skerry usage shows where it went."
    for text in status.get("toolProblems", ()):
        yield text, "skerry doctor"
    if parts := status.get("undelivered"):
        counted = ", ".join(f"{number} {state}" for state, number in sorted(parts.items()))
        yield f"Parts of replies that did not arrive: {counted}.", "skerry doctor"


def _people(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields lines about waiting devices and senders, and about failing accounts."""
    if waiting := status.get("devices", {}).get("pending"):
        yield f"Devices that wait for approval: {waiting}.", "skerry devices list"
    if waiting := status.get("pairing", {}).get("pending"):
        yield f"Senders on chat platforms who wait for approval: {waiting}.", "skerry pairing list"
    for row in status.get("channels", ()):
        if row["enabled"] and row["message"]:
            name = f"{row['channel']}/{row['account']}"
            yield (
                f"The account {name} is {row['state']}: {row['message'].rstrip('.')}.",
                row["remedy"] or "skerry channels status --probe",
            )


def _storage(storage: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if storage.get("state", "ok") != "ok":
        reason = one_line(storage.get("message", "")).rstrip(".")
        yield f"The storage is {storage['state']}: {reason or 'see the log'}.", storage["remedy"]
    if recovered := storage.get("recovered"):
        yield one_line(recovered["message"]), recovered["remedy"]


def _configuration(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if configuration.get("state") == "last-good":
        reason = one_line(configuration.get("message", ""))
        yield f"The last good configuration is used. {reason}".strip(), configuration["remedy"]
    if paths := ", ".join(configuration.get("restartPaths", ())):
        automatic = configuration.get("restart") == "automatic"
        remedy = (
            "The gateway restarts by itself once no run is in progress."
            if automatic
            else "Stop and start the gateway."
        )
        yield f"A restart is needed for {paths}.", remedy


def _queue(queue: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the use of the lanes, and a row for each conversation with work."""
    lanes = [
        f"{lane['name']} {lane['running']} of {lane['limit']}"
        + (f" ({lane['waiting']} wait)" if lane["waiting"] else "")
        for lane in queue.get("lanes", ())
    ]
    if lanes:
        yield "lanes", ", ".join(lanes)
    for session in queue.get("sessions", ()):
        since = session["since"]
        lasts = duration(max(0, queue["at"] - since)) if since is not None else ""
        runs = f"runs for {lasts}" if lasts else "waits for a free lane"
        yield one_line(session["key"]), f"{runs}, {session['waiting']} waiting, {session['mode']}"


def _channels(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns lines with the state of each account on chat platforms."""
    return ", ".join(
        one_line(f"{row['channel']}/{row['account']} {row['state'] if row['enabled'] else 'off'}")
        for row in rows
    )


def _plugins(plugins: Mapping[str, Any]) -> str:
    counts = ((word, len(plugins.get(word, ()))) for word in ("loaded", "failed", "resting"))
    return ", ".join(f"{number} {word}" for word, number in counts if number)


async def _call(arguments: Namespace) -> int:
    try:
        params = json.loads(arguments.params or "{}")
    except ValueError as error:
        raise FailedError(f"--params is not JSON: {error}.", _QUOTES, USAGE) from None
    if not isinstance(params, dict):
        raise FailedError("--params must be an object.", _QUOTES, USAGE)
    final = arguments.expect_final
    timeout = arguments.timeout or (600.0 if final else 30.0)
    async with GatewayClient(find(os.environ, url=arguments.url, token=arguments.token)) as client:
        try:
            call = None if final else _feature_call(arguments.method)
            if call is not None:
                payload = await call(client, params, arguments.timeout)
            else:
                payload = await client.request(
                    arguments.method, params, timeout=timeout, expect_final=final
                )
        except GatewayRefusedError as error:
            if error.details_code == UNKNOWN_METHOD:
                error.remedy = _near(arguments.method, client.hello)
            raise
    if arguments.json:
        show_json(payload)
    else:
        show(plain(json.dumps(payload, indent=2, ensure_ascii=False)))
    return 0


def _feature_call(method: str) -> Callable[..., Awaitable[Any]] | None:
    """Returns the function with which a feature calls its method; None for the usual call."""
    if method.partition(".")[0] not in {feature.name for feature in FEATURES}:
        return None
    from skerry.sdk.features import registered  # noqa: PLC0415 - for methods of features alone

    load = registered().calls.get(method)
    return None if load is None else load()


def _near(method: str, hello: Any) -> str:
    """Returns the methods of the gateway with names similar to this one."""
    methods = hello.get("features", {}).get("methods", ())
    near = ", ".join(spelt_like(method, methods, limit=3))
    return f"Did you mean {near}?" if near else "docs/reference/protocol.md lists every method."


_QUOTES: Final = """Quote it for the shell: --params '{"sessionKey": "main"}'."""
