"""Prints the way of a message, file by file: one text turn of a whole gateway.

The gateway, its store and its provider are the real ones, in this process; only the model server is
a fake. A first client and a first turn warm everything up. Then turns are followed from their
frames to their ends, and the turn with the fewest files counts: in the others the gateway did other
work meanwhile. The client and the fakes do not count.

A turn ends when its `final` event arrives. The work of the gateway after the answer, such as the
mirror, is listed separately and does not count: no client waits for it.

    python -m scripts.walk              the files in the order in which they are entered
    python -m scripts.walk --functions  the functions too
    python -m scripts.walk --most 60    exits with code 1 if there are more files
"""

import argparse
import sys
import tempfile
import threading
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import anyio
import msgspec

from skerry.app.build import Outside, open_application
from skerry.app.settings import Settings
from skerry.config.load import prepare
from skerry.gateway import session_events
from skerry.gateway.server import create_app
from skerry.testing.gateway import model_config
from skerry.testing.model_server import StubModelServer
from tests.support.gateway import serving
from tests.support.wire import Wire, connected

SOURCE: Final = Path(__file__).resolve().parent.parent / "src"
EXCLUDED: Final = ("skerry/testing/", "skerry/client/")
"""Packages outside a turn of the gateway."""
TURNS: Final = 3
"""Minimum number of followed turns."""
QUICK: Final = session_events.COLLECT_SECONDS
"""Seconds of a turn within which no work behind the answer begins; else more turns are followed."""
MAX_TURNS: Final = 20
SETTLE: Final = 0.5
"""Seconds behind the last event in which the work behind the answer is followed."""


Calls = list[tuple[str, str]]
"""Functions that were entered, each with its file before it."""


class Follower:
    """Records each entered function of the source, in all threads, while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.entered: Calls = []
        self.behind: Calls = []
        """Calls after the end of the turn."""
        self.answered = False
        self._files: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Handles an event of the interpreter (`sys.setprofile`)."""
        if self.on and event == "call":
            code = frame.f_code
            file = self._named(code.co_filename)
            if file is not None:
                calls = self.behind if self.answered else self.entered
                calls.append((file, code.co_qualname))

    def _named(self, path: str) -> str | None:
        if path not in self._files:
            inside = Path(path).is_relative_to(SOURCE)
            name = str(Path(path).relative_to(SOURCE)) if inside else None
            self._files[path] = None if name is None or name.startswith(EXCLUDED) else name
        return self._files[path]


async def turn(wire: Wire, text: str) -> None:
    """Sends a message and waits for the end of its run."""
    params = {"sessionKey": "main", "message": text, "idempotencyKey": text}
    await wire.send({"type": "req", "id": text, "method": "chat.send", "params": params})
    await wire.event("chat", state="final")
    wire.frames.clear()


async def followed(home: Path) -> Follower:
    """Follows the calls during and behind one text turn of a gateway in `home`."""
    turns: list[tuple[Calls, Calls]] = []
    follower = Follower()
    threading.setprofile(follower)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(StubModelServer())
        file = home / "skerry.json"
        file.touch(mode=0o600)
        file.write_bytes(msgspec.json.encode(model_config(model.base_url)))
        environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home)}
        settings = Settings(prepare(environ), environ)
        application = await stack.enter_async_context(
            open_application(settings, environ, Outside())
        )
        port = await stack.enter_async_context(serving(create_app(application.context)))
        auth = {"token": settings.config.gateway.auth.secret}
        url = f"ws://127.0.0.1:{port}"
        await stack.enter_async_context(connected(url, auth=auth))  # the first one loads modules
        wire = await stack.enter_async_context(connected(url, auth=auth))
        await turn(wire, "first")
        await anyio.sleep(SETTLE)
        seconds: list[float] = []
        while len(turns) < TURNS or (min(seconds) > QUICK and len(turns) < MAX_TURNS):
            seconds.append(await _follow(follower, wire, str(len(turns))))
            turns.append((follower.entered, follower.behind))
            follower.entered, follower.behind = [], []
    threading.setprofile(None)
    follower.entered, follower.behind = min(turns, key=lambda calls: len(files_of(calls[0])))
    return follower


async def _follow(follower: Follower, wire: Wire, text: str) -> float:
    """Follows one turn and the work behind its answer; returns the seconds of the turn."""
    sys.setprofile(follower)
    follower.on, begin = True, anyio.current_time()
    await turn(wire, text)
    follower.answered, seconds = True, anyio.current_time() - begin
    await anyio.sleep(SETTLE)
    follower.on = follower.answered = False
    sys.setprofile(None)
    return seconds


def files_of(calls: Calls) -> set[str]:
    """Returns the files of the functions."""
    return {file for file, _ in calls}


def package(file: str) -> str:
    """Returns the package that a file is in, such as `skerry/runtime`."""
    first, _, rest = file.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == "skerry" else first


def report(entered: Calls, *, functions: bool) -> int:
    """Prints the way; returns the number of its files."""
    files: dict[str, dict[str, int]] = {}
    for file, function in entered:
        counts = files.setdefault(file, {})
        counts[function] = counts.get(function, 0) + 1
    for number, (file, counts) in enumerate(files.items(), 1):
        print(f"{number:3}  {file:48} {len(counts):3} functions  {next(iter(counts))}")
        if functions:
            for name, count in counts.items():
                print(f"{'':53} {count:5} x {name}")
    packages = [package(file) for file, _ in entered]
    changes = sum(before != after for before, after in pairwise(packages))
    distinct = len({*entered})
    print(
        f"{len(files)} files, {distinct} functions, {len(set(packages))} packages,"
        f" {changes} changes of package"
    )
    return len(files)


def main() -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Print the way of a message, file by file.")
    parser.add_argument("--functions", action="store_true", help="print the functions too")
    parser.add_argument(
        "--most", type=int, metavar="N", help="exit with code 1 if there are more files"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        follower = anyio.run(followed, Path(home))
    files = report(follower.entered, functions=options.functions)
    later = files_of(follower.behind) - files_of(follower.entered)
    print(f"Behind the answer, besides: {len(later)} files: {', '.join(sorted(later))}")
    if options.most is not None and files > options.most:
        print(f"more than {options.most} files", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
