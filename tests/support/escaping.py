"""Harness of the ways out: what lies outside, and a run of the probes inside or, as a control, not.

Outside, only probes run that change nothing: reading, connecting to what the harness opened, and
system calls with arguments that no kernel takes.
"""

import ctypes
import json
import os
import pickle
import secrets
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Self, TypeVar, cast

import anyio
from msgspec.structs import replace

from skerry.config.check import check
from skerry.config.sandbox import SandboxConfig
from skerry.features.sandbox.bubblewrap import Bubblewrap, Bwrap, found_program
from skerry.features.sandbox.canaries import processes
from skerry.features.sandbox.command import SandboxCommand
from skerry.features.sandbox.sandbox_holder import Backend, Granted, Sandboxes
from skerry.features.sandbox.stage import Mount
from skerry.infra.process import Child
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import Limits, SandboxSpec, SelfTest
from skerry.sdk.slots import SandboxHost

PROBES = Path(__file__).parent / "escapes"
LIMITS = Limits(
    memory_bytes=256 << 20,
    processes=64,
    file_bytes=64 << 20,
    tmp_bytes=16 << 20,
    open_files=128,
    cpu_seconds=60,
)
SESSION_KEYRING = -3
ADD_KEY = 248 if os.uname().machine == "x86_64" else 217

T = TypeVar("T")
Results = dict[str, tuple[bool, str]]


def interpreter() -> str:
    """Returns an interpreter that is inside too: of `/usr`, or else this one."""
    own = Path(sys.executable).resolve()
    if own.is_relative_to("/usr"):
        return str(own)
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else str(own)


class Extended:
    """A backend with the probes inside, and with the interpreter where `/usr` has none."""

    def __init__(self, backend: Backend, probes: Path = PROBES) -> None:
        self.name = backend.name
        self.shares_network = backend.shares_network
        self._backend = backend
        self._probes = probes

    async def lacks(self, settings: SandboxConfig) -> str:
        return await self._backend.lacks(settings)

    @asynccontextmanager
    async def running(self, prepare: Callable[[], SandboxCommand]) -> AsyncGenerator[Child]:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        sources = {"/opt/probes": str(self._probes)}
        if not interpreter().startswith("/usr/"):
            sources[sys.base_prefix] = sys.base_prefix
        with ExitStack() as stack:
            mounts: list[Mount] = []
            for target, source in sources.items():
                descriptor = os.open(source, flags)
                stack.callback(os.close, descriptor)
                mounts.append(Mount(descriptor, target))

            def prepared() -> SandboxCommand:
                command = prepare()
                return replace(command, mounts=[*command.mounts, *mounts])

            async with self._backend.running(prepared) as child:
                yield child


def bubblewrap(bwrap: Bwrap | None = None) -> Bubblewrap:
    """Returns bubblewrap, of this program or another."""
    backend = Bubblewrap({"PATH": os.defpath})
    backend._bwrap = bwrap
    return backend


class Outside:
    """All that a probe looks for. Enter it; then `inside` and `control` run the probes."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.workspace = self.state / "workspace"
        self.outside = folder / "outside"
        self.token = secrets.token_hex(8)
        self.secret = f"canary-{secrets.token_hex(8)}"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for path in (self.state, self.workspace, self.outside):
            path.mkdir(mode=0o700)
        self._fill(self.workspace)
        (self.outside / "secret").write_text(self.secret, encoding="ascii")
        self._listen()
        self._start_marker()
        self._inherit()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _fill(self, workspace: Path) -> None:
        """Puts links to the canary, closed folders and a set-user program into a workspace."""
        canary = self.outside / "secret"
        (workspace / "hooks").mkdir()
        (workspace / "project" / ".git").mkdir(parents=True)
        (workspace / "folder").mkdir()
        (workspace / "link-to-canary").symlink_to(canary)
        relative = "../" * 24 + str(canary).lstrip("/")
        (workspace / "relative-link-to-canary").symlink_to(relative)
        (workspace / "link-to-outside").symlink_to(self.outside)
        (workspace / "folder" / "link-to-root").symlink_to("/")
        shutil.copy("/usr/bin/id", workspace / "set-user-id")
        (workspace / "set-user-id").chmod(0o4755)
        (workspace / "AGENTS.md").write_text("Be kind.\n", encoding="utf-8")
        (workspace / "folder" / "another-name").hardlink_to(workspace / "AGENTS.md")
        for name in ("planted-socket", "folder/planted-socket"):
            named = self._stack.enter_context(socket.socket(socket.AF_UNIX))
            named.bind(str(workspace / name))
            named.listen(64)

    def _listen(self) -> None:
        listener = self._stack.enter_context(socket.socket())
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - every address is to be tried
        listener.listen(64)
        self.port = listener.getsockname()[1]
        for name in ("socket", "ssh-agent"):
            named = self._stack.enter_context(socket.socket(socket.AF_UNIX))
            named.bind(str(self.outside / name))
            named.listen(64)
        self.abstract = f"skerry-{secrets.token_hex(8)}"
        abstract = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind("\0" + self.abstract)
        abstract.listen(64)

    def _start_marker(self) -> None:
        self.marker = f"marker-{secrets.token_hex(8)}"
        command = ["/bin/sh", "-c", "sleep 600; :", self.marker]
        environ = {"PATH": os.defpath, "CANARY": self.secret}
        process = subprocess.Popen(command, env=environ, start_new_session=True)
        self._stack.callback(process.wait)
        self._stack.callback(os.killpg, process.pid, 9)
        self.marker_pid = process.pid

    def _inherit(self) -> None:
        """Leaves a descriptor, a variable and a key to whatever this process starts."""
        descriptor = os.open(self.outside / "secret", os.O_RDONLY)
        self._stack.callback(os.close, descriptor)
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - its only form
        os.environ["SKERRY_CANARY"] = self.secret
        self._stack.callback(os.environ.pop, "SKERRY_CANARY", None)
        libc = ctypes.CDLL(None, use_errno=True)
        data = self.secret.encode()
        libc.syscall(ADD_KEY, b"user", self.secret.encode(), data, len(data), SESSION_KEYRING)

    def context(self, workspace: str) -> dict[str, str]:
        """Returns the context of the probes."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                address = probe.getsockname()[0]
            except OSError:
                address = "127.0.0.1"
        namespaces = {
            f"ns_{kind}": str(Path(f"/proc/self/ns/{kind}").readlink())
            for kind in ("user", "pid", "net", "mnt", "ipc", "uts", "cgroup")
        }
        return {
            "token": self.token,
            "workspace": workspace,
            "outside": str(self.outside),
            "canary": str(self.outside / "secret"),
            "secret": self.secret,
            "environment": self.secret,
            "inherited": str(self.outside),
            "key": self.secret,
            "marker": self.marker,
            "marker_pid": str(self.marker_pid),
            "stayer": f"stayer-{self.token}",
            "port": str(self.port),
            "address": address,
            "socket": str(self.outside / "socket"),
            "ssh_agent": str(self.outside / "ssh-agent"),
            "abstract": self.abstract,
            "user_name": "daemon",
            "host_name": socket.gethostname(),
            "processes": str(LIMITS.processes),
            "memory": str(LIMITS.memory_bytes),
            "file": str(LIMITS.file_bytes),
            "tmp": str(LIMITS.tmp_bytes),
            "files": str(LIMITS.open_files),
            **namespaces,
        }

    async def inside(
        self, backend: Backend, wanted: Sequence[str] = (), *, pty: bool = False
    ) -> Results:
        """Returns the results of the probes inside, in a tainted run."""
        file = self.workspace / "context.json"
        file.write_text(json.dumps(self.context("/workspace")), encoding="utf-8")
        config = check({}, state_dir=self.state, path=self.state / "skerry.json")[0]
        host = SandboxHost(lambda: config, {"PATH": os.defpath})
        sandboxes = Sandboxes(host, [], _untested)
        words = [interpreter(), "-I", "-B", "/opt/probes", "/workspace/context.json", *wanted]
        environ = {"SKERRY_CONTAINED": self.token}
        spec = SandboxSpec(words, self.workspace, MAIN_AGENT, env=environ, is_tainted=True, pty=pty)
        granted = Granted(
            spec, config.sandbox(MAIN_AGENT), config, "rw", "none", LIMITS, scope="escapes"
        )
        output = bytearray()
        with anyio.fail_after(240):
            async with sandboxes.within(backend, granted) as process:
                async for part in process.stdout:
                    output += part
                code = await process.wait()
        assert code == 0, output.decode(errors="replace")[-2000:]
        return parsed(output)

    def staying(self) -> list[int]:
        """Returns the processes of the probes that are left."""
        marks = ("/opt/probes", f"stayer-{self.token}")
        return [process.pid for mark in marks for process in processes(mark)]

    def control(self, wanted: Sequence[str]) -> Results:
        """Returns the results of probes that change nothing, run outside."""
        return self._run([], self._control_workspace(), wanted)

    def weak(self, wanted: Sequence[str]) -> Results:
        """Returns the results in namespaces with all rights, where a mount is nobody else's."""
        names = ["--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--mount-proc"]
        workspace = self._control_workspace()
        script = 'mount -t tmpfs none "$0" && mkdir "$0/hooks" && exec "$@"'
        wrapped = ["unshare", *names, "--kill-child", "sh", "-c", script, str(workspace)]
        return self._run(wrapped, workspace, wanted)

    def _control_workspace(self) -> Path:
        workspace = self.state.parent / f"control-{secrets.token_hex(4)}"
        workspace.mkdir()
        self._fill(workspace)
        return workspace

    def _run(self, before: list[str], workspace: Path, wanted: Sequence[str]) -> Results:
        file = self.state.parent / "context.json"
        file.write_text(json.dumps(self.context(str(workspace))), encoding="utf-8")
        command = [*before, sys.executable, "-I", "-B", str(PROBES), str(file), *wanted]
        environ = {"PATH": os.defpath + ":/usr/sbin:/sbin", "SKERRY_CONTAINED": self.token}
        completed = subprocess.run(
            command,
            env=environ,
            capture_output=True,
            timeout=120,
            check=False,
            cwd=workspace,
            close_fds=False,
        )
        assert completed.returncode == 0, completed.stderr.decode(errors="replace")[-2000:]
        return parsed(completed.stdout)


def parsed(output: bytes | bytearray) -> Results:
    """Returns the results by the id of the probe."""
    listed = [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]
    return {line["id"]: (line["out"], line["detail"]) for line in listed}


def run_as(user: int, folder: Path, work: Callable[[Path], T]) -> T:
    """Returns the result of `work` in a process of another user, who owns the folder.

    The process is a copy of this one, whose interpreter that user may not be able to read: so
    `work` has to have run here before, and has imported what it needs.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chown(folder, user, user)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.environ["HOME"] = str(folder)
            data = pickle.dumps((True, work(folder)))
        except BaseException:  # noqa: BLE001 - told to the parent
            data = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        is_done, result = pickle.loads(pipe.read())  # noqa: S301 - of our own process
    os.waitpid(child, 0)
    assert is_done, result
    return cast("T", result)


def reachable(folder: Path) -> Bwrap:
    """Returns a copy of bubblewrap that every user can run, with one of the probes in `folder`."""
    bwrap = found_program({"PATH": os.defpath})
    assert bwrap is not None
    copies = [Path(shutil.copytree(source, folder / source.name)) for source in bwrap.folders]
    copies.append(Path(shutil.copytree(PROBES, folder / "probes")))
    for path in (folder, *copies, *(path for copy in copies for path in copy.rglob("*"))):
        path.chmod(0o755)
    return Bwrap(copies[0] / bwrap.path.relative_to(bwrap.folders[0]), tuple(copies[:-1]))


async def _untested(*_: object) -> SelfTest:
    return SelfTest("none", usable=False)


def listed() -> list[str]:
    """Returns the ids of the probes, none of which is run."""
    script = (
        "import sys, runpy; sys.argv[1:] = ['--list'];"
        f"names = runpy.run_path({str(PROBES)!r} + '/__main__.py', run_name='listed');"
        "print('\\n'.join(names['probes']()))"
    )
    completed = subprocess.run(
        [sys.executable, "-I", "-B", "-c", script], capture_output=True, check=True, timeout=60
    )
    return completed.stdout.decode().split()
