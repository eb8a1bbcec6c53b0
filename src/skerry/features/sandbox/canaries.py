"""Self-test of a backend: places canaries outside, and runs a script inside that looks for them.

The script runs in its own folder. It needs only a shell and the usual small programs; it opens
the files that it tries to write, but writes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from skerry.ports.sandbox import Limits, SelfCheck

SECONDS: Final = 30.0
MAX_OUTPUT_BYTES: Final = 65_536
"""Maximum size of its output."""
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
"""Prints a line for each check, then waits for a line so that its processes can be inspected."""


class ProcessView(Struct, frozen=True):
    """A process of the self-test as the host shows it."""

    pid: int
    user: int
    """Real user id."""


@contextmanager
def placed() -> Iterator[tuple[Path, Path, Mapping[str, str]]]:
    """Yields a workspace, a folder outside of it with a canary, and the variables of the script."""
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
    own_namespace = Path("/proc/self/ns/pid").readlink()
    listed: list[ProcessView] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            if mark.encode() not in (folder / "cmdline").read_bytes() or _is_in(
                folder, own_namespace
            ):
                continue
            status = (folder / "status").read_text(encoding="ascii", errors="replace")
            user = next(line for line in status.splitlines() if line.startswith("Uid:"))
            listed.append(ProcessView(int(folder.name), int(user.split()[1])))
    return listed


def _is_in(folder: Path, namespace: Path) -> bool:
    """Returns true when the process is in the namespace; false for an unreadable process."""
    try:
        return (folder / "ns/pid").readlink() == namespace
    except PermissionError:
        return False


def outside_checks(workspace: Path, outside: Path, inner: Sequence[ProcessView]) -> list[SelfCheck]:
    """Returns the checks that inspect the sandbox from outside while the script runs."""
    created = workspace / "made-inside"
    owner = created.stat().st_uid if created.is_file() else None
    right = workspace.stat().st_uid
    roots = [process.pid for process in inner if process.user == 0]
    return [
        SelfCheck("owner", owner == right, f"{owner} in place of {right}"),
        SelfCheck("user", bool(inner) and not roots, f"of {len(inner)}, {len(roots)} are root"),
        SelfCheck("outside", [path.name for path in outside.iterdir()] == ["secret"]),
    ]


def results(output: str) -> Iterator[SelfCheck]:
    """Yields the checks of the script's output; a failure replaces a success of the same name."""
    listed: dict[str, SelfCheck] = {}
    for line in output.splitlines():
        name, _, rest = line.removeprefix("@").partition(" ")
        verdict, _, detail = rest.partition(" ")
        if line.startswith("@") and verdict in {"ok", "fail"}:
            check = SelfCheck(name, verdict == "ok", detail)
            if name not in listed or not check.ok:
                listed[name] = check
    yield from listed.values()
