"""Whole gateway in a separate process, which a test can kill.

As a program (`python -m skerry.testing.gateway`) it is the real gateway with three additions: an
account on a platform in a folder, a model that echoes, and a fault that kills it at a named point.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import anyio.abc
import msgspec

from skerry.app.build import Outside
from skerry.app.serve import RESTART
from skerry.app.serve import main as serve
from skerry.client.discover import GatewayAddress
from skerry.config.load import prepare
from skerry.model.outbound import Settlement
from skerry.store import no_fault
from skerry.testing import forks
from skerry.testing.channel import OPEN, FakePlatform, MemoryChannel
from skerry.testing.model import ScriptedModel, ScriptedModels, echo
from skerry.testing.ports import reserved
from skerry.testing.unreliable import UnreliableChannel

READY_SECONDS: Final = 120.0
"""Time limit for a start, which takes a second of CPU time, and longer on a busy machine."""
_INHERITED: Final = (
    *("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV"),
    "SSL_CERT_FILE",
)


class EndedEarlyError(AssertionError):
    """Error: a gateway ended before it was ready."""


class GatewayProcess:
    """Gateway in a separate process: `start` starts it; `kill`, `stop` and `end` end it.

    Its state is in `home`, so that the next start continues with it. Its port does not change and
    is reserved until `end`.
    """

    def __init__(
        self,
        home: Path,
        *,
        arguments: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        program: str = "skerry.testing.gateway",
    ) -> None:
        self.home = home
        self._program = program
        self.output: list[str] = []
        """Printed lines of all starts."""
        self._arguments = tuple(arguments)
        self._environ = dict(environ or {})
        self._process: anyio.abc.Process | forks.Forked | None = None
        self._port = 0
        self._reservation = ExitStack()

    @property
    def url(self) -> str:
        """Returns the address of the page, without the token."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def address(self) -> GatewayAddress:
        """Returns the address and the token for a client."""
        return GatewayAddress(f"ws://127.0.0.1:{self._port}", self.token)

    @property
    def token(self) -> str:
        """Returns the token from the configuration that the first start wrote."""
        text: str = msgspec.json.decode((self.home / "skerry.json").read_bytes())["gateway"][
            "auth"
        ]["token"]
        return text

    @property
    def pid(self) -> int:
        """Returns the process id."""
        return self._running.pid

    @property
    def _running(self) -> anyio.abc.Process | forks.Forked:
        if self._process is None:
            raise AssertionError("the gateway is not running")
        return self._process

    @property
    def alive(self) -> bool:
        """Returns whether it was started and its end has not been awaited."""
        return self._process is not None

    async def start(self, *arguments: str) -> None:
        """Starts it and waits until it is ready; `arguments` are for this start only."""
        if not self._port:
            self._port = self._reservation.enter_context(reserved())
        words = ["--port", str(self._port), *self._arguments, *arguments]
        environ = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environ |= {"HOME": str(self.home), "SKERRY_STATE_DIR": str(self.home)} | self._environ
        with anyio.CancelScope(shield=True):  # a process of a cancelled start can still be killed
            self._process = await self._started(words, environ)
        with anyio.fail_after(READY_SECONDS):
            await self._wait_until_ready()

    async def _started(
        self, words: Sequence[str], environ: Mapping[str, str]
    ) -> anyio.abc.Process | forks.Forked:
        if forks.by_fork(self._program, environ):
            return await forks.start(self._program, words, environ)
        command = [sys.executable, "-m", self._program, *words]
        return await anyio.open_process(command, stdout=PIPE, stderr=None, env=environ)

    async def kill(self) -> None:
        """Ends it by SIGKILL."""
        self._running.send_signal(signal.SIGKILL)
        await self.wait()

    async def stop(self) -> int:
        """Ends it by SIGTERM; returns its exit code."""
        self._running.send_signal(signal.SIGTERM)
        return await self.wait()

    async def wait(self) -> int:
        """Waits for its end; returns the exit code, negative for a signal."""
        code = await self._running.wait()
        if self._running.stdout is not None:
            await self._running.stdout.aclose()
        self._process = None
        return code

    async def end(self) -> None:
        """Kills it if it runs, and releases its port."""
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                await self.kill()
        self._reservation.close()

    async def _wait_until_ready(self) -> None:
        stream = self._running.stdout
        text = b""
        while b"ready ws://" not in text or not text.endswith(b"\n"):
            if stream is None:
                raise AssertionError("the gateway has no standard output")
            try:
                text += await stream.receive()
            except anyio.EndOfStream:
                code = await self.wait()
                raise EndedEarlyError(
                    f"the gateway ended with {code} before it was ready"
                ) from None
        self.output += text.decode().splitlines()


@asynccontextmanager
async def running_gateway(
    *,
    model: str | None = None,
    home: Path | None = None,
    config: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    first: Sequence[str] = (),
    program: str = "skerry.testing.gateway",
) -> AsyncGenerator[GatewayProcess]:
    """Runs a gateway in a separate process for the block.

    Args:
        model: Address of an OpenAI-compatible API, such as `StubModelServer.base_url`. Without one
            a model inside the process echoes.
        home: Its state directory; a temporary folder by default.
        config: Content of `skerry.json` for the first start.
        arguments: Arguments of the program, see its `--help`.
        first: Arguments of its first start only, such as `--fault`.
        program: Module to run, such as one that adds a defect.
    """
    with TemporaryDirectory(prefix="skerry-") as temporary:
        gateway = GatewayProcess(home or Path(temporary), arguments=arguments, program=program)
        settings: dict[str, Any] = dict(config or {})
        if model is not None:
            arguments = [*arguments, "--model", "configured"]
            gateway = GatewayProcess(gateway.home, arguments=arguments, program=program)
            agents = settings.get("agents", {})
            settings |= model_config(model)
            defaults = agents.get("defaults", {}) | settings["agents"]["defaults"]
            settings["agents"] = agents | {"defaults": defaults}
        if settings:
            path = gateway.home / "skerry.json"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_bytes(msgspec.json.encode(settings))
        try:
            await gateway.start(*first)
            yield gateway
        finally:
            await gateway.end()


def model_config(base_url: str) -> dict[str, Any]:
    """Returns the configuration of a gateway with the API at `base_url` as its only model."""
    return {
        "models": {
            "providers": {
                "test": {"baseUrl": base_url, "apiKey": "test", "models": [{"id": "stub"}]}
            }
        },
        "agents": {"defaults": {"model": {"primary": "test/stub"}}},
    }


def die() -> None:
    """Kills the process, as a power failure would."""
    os.kill(os.getpid(), signal.SIGKILL)


def hold() -> None:
    """Blocks the thread for good; in the thread of the store, a COMMIT then never returns."""
    threading.Event().wait()


def planted(fault: str, act: Callable[[], None]) -> Callable[[str], None]:
    """Returns a `reach` that calls `act` at the N-th time at a point; `fault` is `name:N`."""
    if not fault:
        return no_fault
    name, _, text = fault.partition(":")
    remaining = int(text or 1)

    def reach(point: str) -> None:
        nonlocal remaining
        if point == name:
            remaining -= 1
            if remaining == 0:
                act()

    return reach


def main() -> int:
    """Runs the gateway with the additions of the command line."""
    parser = argparse.ArgumentParser(prog="python -m skerry.testing.gateway", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", choices=("echo", "configured"), default="echo")
    parser.add_argument("--platform", type=Path, help="folder of a platform to serve")
    parser.add_argument(
        "--settles",
        type=Settlement,
        help="result of the platform for each part whose sending was interrupted",
    )
    parser.add_argument("--unreliable", type=float, default=0.0, help="share of sends that fail")
    parser.add_argument("--fault", default="", help="kill the process at a point: name:N")
    parser.add_argument("--hold", default="", help="block the thread that reaches a point")
    arguments = parser.parse_args()
    with reserved() as port:
        return _serve(arguments, arguments.port or port)


def _serve(arguments: argparse.Namespace, port: int) -> int:
    loaded = prepare(os.environ)
    gateway = loaded.config.gateway.model_copy(update={"port": port})
    models: ScriptedModels | None = None
    if arguments.model == "echo":
        models = ScriptedModels(ScriptedModel(echo))
    adapters: list[MemoryChannel] = []
    if arguments.platform is not None:
        platform, rate = FakePlatform(arguments.platform), arguments.unreliable
        kind = partial(UnreliableChannel, rate=rate) if rate else MemoryChannel
        adapters.append(kind(platform, settles=arguments.settles))
    reach = planted(arguments.fault, die) if arguments.fault else planted(arguments.hold, hold)
    outside = Outside(models=models, adapters=adapters, unnamed_channels=OPEN, reach=reach)
    config = loaded.config.model_copy(update={"gateway": gateway})
    code = serve(replace(loaded, config=config), outside)
    if code == RESTART:
        os.execv(sys.executable, [*sys.orig_argv, "--port", str(port)])  # noqa: S606 - as before
    return code


if __name__ == "__main__":
    sys.exit(main())
