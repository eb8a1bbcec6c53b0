"""Self-test of a backend: canaries are placed outside, and a script looks for them inside.

The script runs in a folder of its own. It needs a shell and the usual small programs alone; it
opens what it tries to write without writing to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from skerry.ports.sandbox import Limits, SelfCheck

SECONDS: Final = 30.0
MOST: Final = 65_536
"""Bytes of its output."""
LIMITS: Final = Limits(
    memory_bytes=2 << 30,
    processes=40,
    file_bytes=8 << 20,
    tmp_bytes=1 << 20,
    open_files=64,
    cpu_seconds=20,
)
CLOSED: Final = ("hooks", "plugins", "skills", ".git", ".skerry")
_SOCKETS: Final = "/var/run/docker.sock /run/docker.sock /run/podman/podman.sock /run/dbus"

SCRIPT: Final = Path(__file__).with_name("canaries.sh")
"""Prints a line for each check; waits for a line at its end, so that its processes can be seen."""


class ProcessView(Struct, frozen=True):
    """A process of the self-test as this machine has it."""

    pid: int
    user: int
    """Real user id."""


@contextmanager
def placed() -> Iterator[tuple[Path, Path, Mapping[str, str]]]:
    """Gives a workspace, a folder outside of it with a canary, and the variables of the script."""
    with TemporaryDirectory(prefix="skerry-sandbox-") as name:
        workspace, outside = Path(name, "workspace"), Path(name, "outside")
        for folder in (workspace, outside):
            folder.mkdir(mode=0o700)
        secret = outside / "secret"
        secret.write_text("canary\n", encoding="ascii")
        secret.chmod(0o644)
        environ = {"OUTSIDE": str(outside), "CLOSED": " ".join(CLOSED), "SOCKETS": _SOCKETS}
        yield workspace, outside, environ


def processes(mark: str) -> list[ProcessView]:
    """Returns the processes with the word `mark` that are in another process namespace."""
    ours = Path("/proc/self/ns/pid").readlink()
    listed: list[ProcessView] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            if mark.encode() not in (folder / "cmdline").read_bytes() or _is_in(folder, ours):
                continue
            status = (folder / "status").read_text(encoding="ascii", errors="replace")
            user = next(line for line in status.splitlines() if line.startswith("Uid:"))
            listed.append(ProcessView(int(folder.name), int(user.split()[1])))
    return listed


def _is_in(folder: Path, namespace: Path) -> bool:
    """Returns whether a process is in the namespace; what may not be looked at is not."""
    try:
        return (folder / "ns/pid").readlink() == namespace
    except PermissionError:
        return False


def outside_checks(workspace: Path, outside: Path, inner: Sequence[ProcessView]) -> list[SelfCheck]:
    """Returns the checks that look from outside, while the script runs."""
    made = workspace / "made-inside"
    owner = made.stat().st_uid if made.is_file() else None
    right = workspace.stat().st_uid
    roots = [process.pid for process in inner if process.user == 0]
    return [
        SelfCheck("owner", owner == right, f"{owner} in place of {right}"),
        SelfCheck("user", bool(inner) and not roots, f"of {len(inner)}, {len(roots)} are root"),
        SelfCheck("outside", [path.name for path in outside.iterdir()] == ["secret"]),
    ]


def results(output: str) -> Iterator[SelfCheck]:
    """Yields the checks of the script's output; of two of a name, the one that failed."""
    listed: dict[str, SelfCheck] = {}
    for line in output.splitlines():
        name, _, rest = line.removeprefix("@").partition(" ")
        verdict, _, detail = rest.partition(" ")
        if line.startswith("@") and verdict in {"ok", "fail"}:
            check = SelfCheck(name, verdict == "ok", detail)
            if name not in listed or not check.ok:
                listed[name] = check
    yield from listed.values()
