"""Protocol of a sandbox, in which a command of an agent runs apart from the machine."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Protocol

import anyio.abc
from msgspec import Struct, field

from skerry.model.ids import AgentId

Access = Literal["none", "ro", "rw"]
"""Use of the agent's workspace: a folder of the sandbox's own in its stead, reading, or writing."""
Network = Literal["none", "proxy"]
"""`proxy` reaches allowed hosts through the gateway's one door; nothing else reaches any."""

WORKDIR: Final = PurePosixPath("/workspace")
"""Path of the workspace inside."""


class Limits(Struct, frozen=True):
    """Limits on what runs inside."""

    memory_bytes: int = 1 << 30
    """Address space of each process; of all together where the backend can count that."""
    processes: int = 256
    """Processes and threads at the same time."""
    file_bytes: int = 1 << 30
    """Size of each file that is written."""
    tmp_bytes: int = 256 << 20
    """Size of `/tmp`, and of `/dev/shm`."""
    open_files: int = 1024
    """Descriptors of each process."""
    cpu_seconds: int = 3600
    """CPU time of each process."""
    cpus: float | None = None
    """Processors used at the same time, where the backend can limit that."""


class SandboxSpec(Struct, frozen=True):
    """One command to run inside."""

    argv: Sequence[str]
    workspace: Path
    """The agent's workspace on this machine."""
    agent: AgentId
    session: str = ""
    """Session key; with the agent it selects a warm container and a folder of its own."""
    access: Access | None = None
    """None is as the configuration says for the agent. A wider one than that is refused."""
    closed: tuple[Path, ...] = ()
    """Absolute paths beneath `workspace` that can only be read inside, also those that do not
    exist: nothing can be made there."""
    is_tainted: bool = False
    """True in a run that has read others' text: then the memory, and the files that a prompt reads,
    can only be read inside, too."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Whole environment inside, besides `PATH`, `HOME`, `LANG` and `TMPDIR`."""
    network: Network | None = None
    """None is as the configuration says for the agent. A wider one than that is refused."""
    cwd: PurePosixPath = WORKDIR
    """Folder inside in which the command starts."""
    limits: Limits | None = None
    """None is as the configuration says for the agent."""
    listens: bool = False
    """Gives the command a standard input that can be written; without it there is none."""
    pty: bool = False
    """Makes a terminal its standard input and output; it never becomes a controlling terminal."""
    rows: int = 24
    columns: int = 80


class SandboxProcess(Protocol):
    """A command that runs inside. The end of its block ends all that it started."""

    @property
    def pid(self) -> int:
        """Returns the process id of its outermost process on this machine."""
        ...

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns its standard input, of a command that `listens` or has a terminal."""
        ...

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns its output: standard output and standard error in their order.

        Ends when every process inside has closed it.
        """
        ...

    @property
    def returncode(self) -> int | None:
        """Returns its exit code, negative for a signal; None while it runs."""
        ...

    async def wait(self) -> int:
        """Waits until it has ended; returns its exit code."""
        ...

    def kill(self) -> None:
        """Ends everything inside, at once."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal; of a command without one, nothing."""
        ...


class SelfCheck(Struct, frozen=True):
    """One canary of the self-test."""

    id: str
    ok: bool
    detail: str = ""


class SelfTest(Struct, frozen=True):
    """Result of a self-test: whether a command may be run in this backend."""

    backend: str
    """`bubblewrap`, `docker` or `podman`; `none` where there is none."""
    usable: bool
    checks: tuple[SelfCheck, ...] = ()
    remedy: str = ""
    """Remedy where it is not usable."""


class Sandbox(Protocol):
    """The sandboxes of an installation. Holds the slot `sandbox`."""

    def applies(self, agent: AgentId, session: str) -> bool:
        """Returns whether commands of this session run inside: `agents.*.sandbox.mode`."""
        ...

    async def usable(self, agent: AgentId | None = None) -> SelfTest:
        """Returns the self-test of the backend that is configured for the agent.

        It runs once, and a minute after a failure again. It never raises: without a backend,
        `usable` is false and `remedy` tells what to do.
        """
        ...

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[SandboxProcess]:
        """Runs a command inside for a block, whose end ends everything that it started.

        The time limit is the caller's: it leaves the block. All that runs inside also ends when
        this process dies.

        Raises:
            SandboxError: there is no usable backend, or the spec asks for more than the
                configuration grants; never is it run outside instead.
        """
        ...
