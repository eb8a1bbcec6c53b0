"""Docker and podman: keeps a container warm for each scope, and runs commands in it.

A container ends with this process, however this process ends: the container reads from a pipe
whose write end is open only here. The processes of a command end with it. None has the user id 0.
"""

import os
import re
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from skerry.config.sandbox import SandboxConfig
from skerry.features.sandbox import apparmor, seccomp_profile, stage
from skerry.features.sandbox.command import SandboxCommand
from skerry.features.sandbox.stage import INSIDE_UID, Maps
from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.process import Child, Finished, ProcessError, Program, allowed, child, run
from skerry.model.errors import SandboxError

PREFIX: Final = "skerry-sbx-"
STATE_LABEL: Final = "org.skerry.state"
SCOPE_LABEL: Final = "org.skerry.scope"
PROCESS_LABEL: Final = "org.skerry.process"
LIFE: Final = "/run/skerry/life"
"""Path inside of the pipe whose end ends the container."""
IDLE_SECONDS: Final = 24 * 3600.0
AGE_SECONDS: Final = 7 * 24 * 3600.0
MAX_PROCESSES: Final = 32
"""Maximum number of processes, zombies included, with which a container is used again."""
_ENVIRON: Final = re.compile("PATH|HOME|XDG_RUNTIME_DIR|DOCKER_[A-Z_]+|CONTAINER_[A-Z_]+")
_ADVICE: Final = re.compile(r"\s*$|(Run|See) '.*(--help|help)'")
_SECONDS: Final = 120.0
_EMPTY_FILE: Final = Path("/dev/null")
_END: Final = """
if [ "$1" = all ]; then kill -9 -1 2>/dev/null; else
  for one in /proc/[0-9]*; do
    if grep -qz "^SKERRY_COMMAND=$1\\$" "$one/environ" 2>/dev/null; then
      kill -9 "${one#/proc/}" 2>/dev/null
    fi
  done
fi
set -- /proc/[0-9]*
echo $#
"""
"""Kills all processes, or in a shared container those with the command's variable."""


class Warm(Struct):
    """A container that is kept running for further commands."""

    name: str
    scope: str
    life: int
    """Descriptor of the gateway's end of its pipe."""
    fifo: Path
    pid: int
    """Process id of its first process."""
    created_at: float
    used: float
    commands: int = 0
    """Commands that run in it now."""


class StoredContainer(Struct, frozen=True):
    """A container as `skerry sandbox list` shows it."""

    id: str
    name: str
    backend: str
    scope: str
    image: str
    status: str
    process: int
    """Process id of the gateway or the `skerry` command that keeps the container."""


class Containers:
    """Runs commands in containers of docker or podman. Implements `holder.Backend`."""

    shares_network = True

    def __init__(self, name: str, environ: Mapping[str, str], state: Path) -> None:
        self.name = name
        self._environ = allowed(environ, _ENVIRON)
        self._folder = state / "sandbox"
        self._state = sha256(str(state).encode()).hexdigest()[:16]
        self._warm: dict[str, Warm] = {}
        self._turn = anyio.Lock()
        self._maps = Maps({"PATH": os.defpath})

    async def lacks(self, settings: SandboxConfig) -> str:
        """Returns the missing part, with the remedy, or an empty string."""
        if shutil.which(self.name, path=self._environ.get("PATH", os.defpath)) is None:
            return f"{self.name} was not found. Install {self.name}."
        try:
            version = await self._call("version", "--format", "{{.Server.Version}}")
            image = await self._call("image", "inspect", "--format", "{{.Id}}", _image(settings))
        except ProcessError as error:
            return f"{self.name} does not respond: {error} Start {self.name}."
        if version.code:
            return f"{self.name} does not respond: {_last(version)} Start {self.name}."
        if image.code:
            return (
                f"The image {_image(settings)} is not on this machine. Load it, and name it"
                " in agents.defaults.sandbox.docker.image."
            )
        return ""

    @asynccontextmanager
    async def running(self, prepare: Callable[[], SandboxCommand]) -> AsyncGenerator[Child]:
        """Runs a command for a block; its end kills every process of the command."""
        command = await anyio.to_thread.run_sync(prepare)
        if command.terminal is not None:
            raise SandboxError(
                f"{self.name} cannot give commands a terminal.",
                "Run the command without a terminal, or use the backend bubblewrap.",
            )
        mark = os.urandom(12).hex()
        async with self._turn:
            warm = await self._container(command)
            warm.commands += 1
        try:
            proxies = {} if command.join is None else await command.join(warm.pid)
            with ExitStack() as stack:
                start = self._exec(warm, command, {**proxies, "SKERRY_COMMAND": mark}, stack)
                async with child(start, listens=command.listens) as process:
                    yield process
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(warm, mark)

    async def stored_containers(self) -> list[StoredContainer]:
        """Returns the containers of this installation, of other processes too; never raises."""
        if shutil.which(self.name, path=self._environ.get("PATH", os.defpath)) is None:
            return []
        columns = ["{{.ID}}", "{{.Names}}", "{{.Image}}", "{{.Status}}"]
        columns += [f'{{{{.Label "{label}"}}}}' for label in (SCOPE_LABEL, PROCESS_LABEL)]
        chosen = ("--all", "--filter", f"label={STATE_LABEL}={self._state}")
        result = await self._call("ps", *chosen, "--format", "\t".join(columns))
        rows = [row.split("\t") for row in result.out.decode().splitlines()]
        return [
            StoredContainer(row[0], row[1], self.name, row[4], row[2], row[3], int(row[5]))
            for row in rows
            if len(row) == len(columns) and row[-1].isdecimal()
        ]

    async def remove(self, names: Sequence[str]) -> None:
        """Removes containers, with all processes in them."""
        if names:
            await self._call("rm", "--force", *names)

    async def _container(self, command: SandboxCommand) -> Warm:
        """Returns a container for the command; removes the unused ones."""
        now = time.monotonic()
        for name, warm in list(self._warm.items()):
            is_old = now - warm.used > IDLE_SECONDS or now - warm.created_at > AGE_SECONDS
            if not warm.commands and (is_old or not _lives(warm.pid)):
                await self._drop(name)
        sources = _sources(command)
        name = (
            PREFIX
            + re.sub("[^a-z0-9-]", "-", command.scope)[:40]
            + "-"
            + self._digest(command, sources)
        )
        if name not in self._warm:
            self._warm[name] = await self._start(name, command, sources)
        self._warm[name].used = now
        return self._warm[name]

    def _digest(self, command: SandboxCommand, sources: Sequence[Path]) -> str:
        """Returns the digest of all properties that decide the container of a command."""
        mounts = [
            (str(source), mount.target, mount.is_writable)
            for source, mount in zip(sources, command.mounts, strict=True)
        ]
        paths = (command.hidden, command.covered)
        docker = command.settings.docker
        settings = (
            docker.image,
            docker.apparmor_profile,
            command.limits,
            command.exclusive_session,
        )
        parts = (os.getpid(), settings, mounts, paths)
        data = msgspec.json.encode(parts) + self._state.encode()
        return sha256(data).hexdigest()[:16]

    async def _start(self, name: str, command: SandboxCommand, sources: Sequence[Path]) -> Warm:
        make_private(self._folder)
        if not self._warm:  # of a process that was killed before its container opened the pipe
            await self.remove(
                [
                    stored.id
                    for stored in await self.stored_containers()
                    if not _lives(stored.process)
                ]
            )
            await anyio.to_thread.run_sync(_unmount_left, self._folder / "mounts")
        profile = self._folder / "seccomp.json"
        write_atomic(profile, seccomp_profile.profile())
        fifo = self._folder / f"{name}.life"
        with suppress(FileNotFoundError):
            fifo.unlink()
        os.mkfifo(fifo, 0o600)
        life = os.open(fifo, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fifo.chmod(0o444)  # a command must not open the write end
        try:
            with ExitStack() as stack:
                if stage.is_needed():
                    folder = self._folder / "mounts" / str(os.getpid()) / name
                    placed = stage.placed(command.mounts, self._maps, folder)
                    sources = await anyio.to_thread.run_sync(stack.enter_context, placed)
                words = self._options(name, command, [*zip(sources, command.mounts, strict=True)])
                words += [*_bind(fifo, LIFE, is_writable=False), "--security-opt"]
                words += [f"seccomp={profile}", *_apparmor(self.name, command)]
                words += ["--entrypoint", "/bin/cat"]
                result = await self._call("run", *words, _image(command.settings), LIFE)
            self._check(result)
            pid = await self._pid(name)
        except BaseException:
            os.close(life)
            fifo.unlink(missing_ok=True)
            raise
        now = time.monotonic()
        return Warm(name, command.scope, life, fifo, pid, now, now)

    async def _pid(self, name: str) -> int:
        """Returns the id of the first process of a started container.

        Raises:
            SandboxError: the container has no AppArmor profile, though this machine has AppArmor.
        """
        result = await self._call(
            "inspect", "--format", "{{.State.Pid}} {{.AppArmorProfile}}", name
        )
        number, _, label = result.out.decode().strip().partition(" ")
        if apparmor.is_on() and not apparmor.is_confined(label):
            await self._call("rm", "--force", name)
            raise SandboxError(
                f"{self.name} started a container without an AppArmor profile.",
                "Set sandbox.docker.apparmorProfile to a loaded profile.",
            )
        return int(number or "0")

    def _check(self, result: Finished) -> None:
        if result.code:
            message = f"{self.name} cannot start a container: {_last(result)}"
            raise SandboxError(
                message, f"Run `skerry sandbox test --backend {self.name}` for the cause."
            )

    def _options(
        self, name: str, command: SandboxCommand, mounts: Sequence[tuple[Path, stage.Mount]]
    ) -> list[str]:
        limits = command.limits
        user = INSIDE_UID if stage.is_needed() else os.getuid()
        group = INSIDE_UID if stage.is_needed() else os.getgid()
        words = ["--detach", "--rm", "--name", name, "--hostname", "sandbox", "--network", "none"]
        words += ["--label", f"{STATE_LABEL}={self._state}"]
        words += ["--label", f"{SCOPE_LABEL}={command.scope}"]
        words += ["--label", f"{PROCESS_LABEL}={os.getpid()}"]
        words += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        words += ["--ipc", "private", "--user", f"{user}:{group}", "--workdir", "/workspace"]
        if self.name == "podman" and not stage.is_needed():
            words += ["--userns", "keep-id"]
        memory = str(limits.memory_bytes)
        words += ["--memory", memory, "--memory-swap", memory]
        words += ["--pids-limit", str(limits.processes), "--shm-size", str(limits.tmp_bytes)]
        words += ["--cpus", str(limits.cpus)] if limits.cpus else []
        for kind, limit in (
            ("core", 0),
            ("nofile", limits.open_files),
            ("fsize", limits.file_bytes),
            ("cpu", limits.cpu_seconds),
        ):
            words += ["--ulimit", f"{kind}={limit}:{limit}"]
        tmp = f"rw,nosuid,nodev,exec,mode=1777,size={limits.tmp_bytes}"
        words += ["--tmpfs", f"/tmp:{tmp}"]  # noqa: S108 - a path inside
        for source, mount in mounts:
            words += _bind(source, mount.target, is_writable=mount.is_writable)
        for path in command.hidden:
            words += ["--tmpfs", f"{path}:ro,size=4k"]
        for path in command.covered:
            words += _bind(_EMPTY_FILE, path, is_writable=False)
        return words

    def _exec(
        self, warm: Warm, command: SandboxCommand, additional: Mapping[str, str], stack: ExitStack
    ) -> Program:
        environ = {**command.environ, **additional}
        invalid = next((name for name, value in environ.items() if "\n" in name + value), None)
        if invalid is not None:
            raise SandboxError(
                f"The variable {invalid!r} has a line break, which {self.name} cannot pass.",
                "Remove the variable, or use the backend bubblewrap.",
            )
        descriptor = os.memfd_create("skerry")
        stack.callback(os.close, descriptor)
        os.write(descriptor, "".join(f"{n}={v}\n" for n, v in environ.items()).encode())
        words = [self.name, "exec", "--workdir", str(command.cwd)]
        words += ["--env-file", f"/proc/self/fd/{descriptor}"]
        words += ["--interactive"] if command.listens else []
        words += [warm.name, *command.argv]
        return Program(words, self._environ, descriptors=[descriptor], merges=True)

    async def _end(self, warm: Warm, mark: str) -> None:
        """Kills the remaining processes of a command; removes the container when some survive."""
        async with self._turn:
            warm.commands -= 1
            scope = mark if warm.commands else "all"
            try:
                result = await self._call("exec", warm.name, "/bin/sh", "-c", _END, "sh", scope)
                remaining = int(result.out.decode().strip() or MAX_PROCESSES + 1)
            except (ProcessError, ValueError):
                remaining = MAX_PROCESSES + 1
            if remaining > MAX_PROCESSES and not warm.commands:
                await self._drop(warm.name)

    async def _drop(self, name: str) -> None:
        warm = self._warm.pop(name)
        os.close(warm.life)
        warm.fifo.unlink(missing_ok=True)
        with suppress(ProcessError):
            await self._call("rm", "--force", name)

    async def _call(self, *words: str) -> Finished:
        """Calls the program of the engine. Raises `ProcessError` when it does not respond."""
        return await run(Program([self.name, *words], self._environ), seconds=_SECONDS)


def _unmount_left(folder: Path) -> None:
    """Unmounts the mounts of a process that was killed while its container started."""
    for process in folder.iterdir() if folder.is_dir() else ():
        if process.name.isdecimal() and not _lives(int(process.name)):
            for leftover in process.iterdir():
                stage.unmount(leftover)
            with suppress(OSError):
                process.rmdir()


def _lives(pid: int) -> bool:
    """Returns whether there is such a process on this machine."""
    return os.path.exists(f"/proc/{pid}")  # noqa: PTH110 - called in an event loop


def _image(settings: SandboxConfig) -> str:
    return settings.docker.image


def _sources(command: SandboxCommand) -> list[Path]:
    return [Path(f"/proc/self/fd/{mount.descriptor}").readlink() for mount in command.mounts]


def _bind(source: Path, target: str, *, is_writable: bool) -> list[str]:
    """Returns the option of a mount. Raises `SandboxError` for a path that it cannot express."""
    for path in (str(source), target):
        if any(mark in path for mark in ',"\n'):
            message = (
                f"The path {path!r} has a comma or a quote, which the mount option cannot express."
            )
            raise SandboxError(message, "Rename the path, or use the backend bubblewrap.")
    mode = "" if is_writable else ",readonly"
    return ["--mount", f"type=bind,source={source},target={target}{mode}"]


def _apparmor(engine: str, command: SandboxCommand) -> list[str]:
    """Returns the options that name the AppArmor profile."""
    name = apparmor.profile(engine, command.settings.docker.apparmor_profile)
    return [] if name is None else ["--security-opt", f"apparmor={name}"]


def _last(result: Finished) -> str:
    """Returns the last line of its errors, without the advice of the engine's program."""
    text = result.err.strip() or result.out.decode(errors="replace").strip()
    lines = [line for line in text.splitlines() if not _ADVICE.match(line)]
    return lines[-1] if lines else "no reason"
