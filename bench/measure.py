"""Common parts of the benchmarks: processes with readable CPU, a lean client, printed figures."""

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from skerry.testing.gateway import model_config

SEPARATOR: Final = " | "
_INHERITED: Final = ("PATH", "PYTHONPATH", "LANG", "VIRTUAL_ENV")
_SETTLE_SECONDS: Final = 60
_QUIET_SECONDS: Final = 5  # longer than the delay after which the memory reads messages
_QUIET_CPU: Final = 0.02  # CPU seconds that an idle gateway may use per second
_SCHED: Final = 2  # CPUCLOCK_SCHED of the kernel: user and system time in nanoseconds


def yardstick() -> float:
    """Returns the CPU ms of a fixed loop, which grow when other processes share the core."""
    texts: dict[int, str] = {}
    begin = time.process_time()
    for number in range(300_000):
        texts[number % 1000] = str(number)
    return (time.process_time() - begin) * 1e3


def figure(name: str, budget: str, measured: str, remarks: str = "") -> None:
    """Prints one figure: name, budget, measured value and remarks."""
    print(SEPARATOR.join((f"{name:<44}", f"{budget:<8}", f"{measured:<12}", remarks)), flush=True)


@dataclass(frozen=True, slots=True)
class Tree:
    """A process and all its descendants."""

    pid: int

    def cpu(self) -> float:
        """Returns the CPU seconds of all processes, ended ones included.

        Running processes are measured by the clock of `clock_getcpuclockid`, to the nanosecond;
        ended ones by /proc/PID/stat, in ticks of 10 ms.
        """
        return sum(time.clock_gettime((~pid << 3) | _SCHED) + _ended(pid) for pid in self._all())

    def rss(self) -> float:
        """Returns the resident memory, in MB."""
        return sum(_status(pid, "VmRSS") for pid in self._all())

    def anonymous(self) -> float:
        """Returns the anonymous resident memory, in MB."""
        return sum(_status(pid, "RssAnon") for pid in self._all())

    def peak(self) -> float:
        """Returns the peak of the resident memory of the process itself, in MB."""
        return _status(self.pid, "VmHWM")

    def _all(self) -> list[int]:
        pids = [self.pid]
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").iterdir():
                with suppress(FileNotFoundError):  # the thread has just ended
                    pids += map(int, (task / "children").read_text("ascii").split())
        return pids


def _ended(pid: int) -> float:
    """Returns the CPU seconds of the children of a process that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    user, system = fields[13:15]  # cutime and cstime, counted from the state, field 3
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    values = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(next(values, 0)) * 1024 / 1e6  # a process that has just ended has none


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway in a separate process."""

    tree: Tree
    port: int
    token: str
    start_cpu: float
    """CPU seconds from exec to the line `ready`."""


@contextmanager
def gateway(home: Path, config: Mapping[str, Any] | None = None) -> Iterator[Gateway]:
    """Runs `skerry gateway run` for the block, as a person does; its state is in `home`."""
    file = home / "skerry.json"
    if config is not None:
        file.touch(mode=0o600)
        file.write_bytes(msgspec.json.encode(config))
    command = [sys.executable, "-m", "skerry", "gateway", "run", "--port", "0"]
    with _running(command, home) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("ready ws://"):
                break
        else:
            raise AssertionError("the gateway ended before it was ready")
        tree = Tree(process.pid)
        start_cpu = tree.cpu()
        token = json.loads(file.read_bytes())["gateway"]["auth"]["token"]
        yield Gateway(tree, int(line.rpartition(":")[2]), token, start_cpu)


@dataclass(frozen=True, slots=True)
class Model:
    """A model API in a separate process, which answers at once."""

    tree: Tree
    base_url: str


@contextmanager
def model_server(*options: str) -> Iterator[Model]:
    """Runs the stub for the block; without options it echoes."""
    command = [sys.executable, "-m", "skerry.testing.model_server", "--port", "0", *options]
    with TemporaryDirectory() as home, _running(command, Path(home)) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield Model(Tree(process.pid), ready["base_url"])


@contextmanager
def stubbed_gateway(*options: str) -> Iterator[tuple[Gateway, Model]]:
    """Runs a gateway with its defaults, in a new home, whose only model is the stub."""
    with (
        TemporaryDirectory(prefix="skerry-") as home,
        model_server(*options) as model,
        gateway(Path(home), model_config(model.base_url)) as running,
    ):
        yield running, model


async def settled(
    gateway: Gateway, *, quiet: float = _QUIET_SECONDS, within: float = _SETTLE_SECONDS
) -> None:
    """Waits for the end of the background work of the turns: `quiet` seconds without CPU use."""
    since = 0
    with anyio.move_on_after(within):
        while since < quiet:
            before = gateway.tree.cpu()
            await anyio.sleep(1)
            since = since + 1 if gateway.tree.cpu() - before < _QUIET_CPU else 0


@contextmanager
def _running(command: Sequence[str], home: Path) -> Iterator["subprocess.Popen[str]"]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environ = inherited | {"HOME": str(home), "SKERRY_STATE_DIR": str(home)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


class _Payload(msgspec.Struct):
    status: str = ""


class _Frame(msgspec.Struct):
    """Fields that the driver reads; everything else in a frame is skipped."""

    type: str
    id: str = ""
    ok: bool = True
    payload: _Payload = msgspec.field(default_factory=_Payload)


_decode: Final = msgspec.json.Decoder(_Frame).decode
_encode: Final = msgspec.json.Encoder().encode


class Driver:
    """A minimal client, whose own cost is negligible."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events = 0
        """Number of received events."""
        self._ids = count(1)

    async def request(self, method: str, params: Any) -> str:
        """Sends a request without waiting; returns its id."""
        name = str(next(self._ids))
        frame = {"type": "req", "id": name, "method": method, "params": params}
        await self.socket.send(_encode(frame), text=True)
        return name

    async def final(self) -> str:
        """Returns the id of the next completed request; a failed one ends the benchmark."""
        while True:
            raw = await self.socket.recv(decode=False)
            frame = _decode(raw)
            if frame.type == "event":
                self.events += 1
            elif not frame.ok:
                raise AssertionError(raw)
            elif frame.payload.status != "accepted":
                return frame.id

    async def answer(self, method: str, params: Any) -> Any:
        """Sends a request and returns its response; no other request may be open."""
        name = await self.request(method, params)
        while True:
            frame = json.loads(await self.socket.recv())
            if frame["type"] == "res" and frame["id"] == name:
                return frame["payload"]

    async def say(self, session: str, text: str = "hello") -> str:
        """Starts a turn; returns its id."""
        key = os.urandom(8).hex()
        params = {"message": text, "sessionKey": session, "idempotencyKey": key}
        return await self.request("agent", params)

    async def turns(self, number: int, sessions: Sequence[str], text: str = "hello") -> list[float]:
        """Runs `number` turns, one at a time in each session; returns the seconds of each."""
        seconds: list[float] = []
        started: dict[str, tuple[str, float]] = {}
        remaining = number
        for session in sessions[:number]:
            started[await self.say(session, text)] = session, time.perf_counter()
            remaining -= 1
        while started:
            session, begin = started.pop(await self.final())
            now = time.perf_counter()
            seconds.append(now - begin)
            if remaining:
                started[await self.say(session, text)] = session, now
                remaining -= 1
        return seconds


@asynccontextmanager
async def driver(gateway: Gateway, protocol: int = 4) -> AsyncGenerator[Driver]:
    """Connects to the gateway and authenticates."""
    url = f"ws://127.0.0.1:{gateway.port}/"
    async with connect(
        url, compression=None, max_size=None, ping_interval=None, proxy=None
    ) as socket:
        await socket.recv()  # the challenge
        client = Driver(socket)
        await client.request(
            "connect",
            {
                "minProtocol": protocol,
                "maxProtocol": protocol,
                "client": {"id": "test", "version": "1", "platform": "linux", "mode": "test"},
                "scopes": ["operator.read", "operator.write"],
                "auth": {"token": gateway.token},
            },
        )
        await client.final()
        yield client
