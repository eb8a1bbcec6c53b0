"""Protocol of a sandbox, which isolates the commands of an agent from the machine."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Protocol

import anyio.abc
from msgspec import Struct, field

from skerry.model.ids import AgentId

Access = Literal["none", "ro", "rw"]
"""Access to the agent's workspace: a separate folder instead of it, reading, or writing."""
Network = Literal["none", "proxy"]
"""`proxy` reaches allowed hosts through a proxy of the gateway; `none` reaches no host."""

WORKDIR: Final = PurePosixPath("/workspace")
"""Path of the workspace inside the sandbox."""


class Limits(Struct, frozen=True):
    """Limits on the processes inside."""

    memory_bytes: int = 1 << 30
    """Address space of each process, or memory of all processes together if the backend counts
    that."""
    processes: int = 256
    """Processes and threads at the same time."""
    file_bytes: int = 1 << 30
    """Size of each written file."""
    tmp_bytes: int = 256 << 20
    """Size of `/tmp`, and of `/dev/shm`."""
    open_files: int = 1024
    """Open file descriptors of each process."""
    cpu_seconds: int = 3600
    """CPU time of each process."""
    cpus: float | None = None
    """Processors used at the same time, if the backend can limit that; None is no limit."""


class SandboxSpec(Struct, frozen=True):
    """One command to run inside."""

    argv: Sequence[str]
    workspace: Path
    """The agent's workspace on this machine."""
    agent: AgentId
    session: str = ""
    """Session key; agent and session together select a warm container and a separate folder."""
    access: Access | None = None
    """None takes the agent's configured access. Wider access than that is refused."""
    closed: tuple[Path, ...] = ()
    """Absolute paths below `workspace` that are read-only inside. Paths that do not exist are
    closed too: nothing can be created there."""
    skills: tuple[Path, ...] = ()
    """Folders of skills outside of `workspace`, without links: read-only inside, at the same path.
    Each is opened for the command, which does not start if one is not the folder of a skill."""
    is_tainted: bool = False
    """True for a run that has read text of other people: the memory and the files that a prompt
    reads are then read-only inside, too."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment inside, in addition to `PATH`, `HOME`, `LANG` and `TMPDIR`."""
    network: Network | None = None
    """None takes the agent's configured network. A wider network than that is refused."""
    cwd: PurePosixPath = WORKDIR
    """Folder inside the sandbox in which the command starts."""
    limits: Limits | None = None
    """None takes the agent's configured limits."""
    listens: bool = False
    """Gives the command a standard input that can be written; otherwise it has none."""
    pty: bool = False
    """Connects standard input and output to a terminal, which is never a controlling terminal."""
    rows: int = 24
    columns: int = 80


class SandboxProcess(Protocol):
    """A command that runs inside. The end of its `async with` block ends all its processes."""

    @property
    def pid(self) -> int:
        """Returns the process id of its outermost process on this machine."""
        ...

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns the standard input of a command with `listens` or `pty`."""
        ...

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns standard output and standard error as one stream, in the order of writing.

        The stream ends when every process inside has closed it.
        """
        ...

    @property
    def returncode(self) -> int | None:
        """Returns its exit code, negative for a signal; None while it runs."""
        ...

    async def wait(self) -> int:
        """Waits for the end of the command; returns its exit code, negative for a signal."""
        ...

    def kill(self) -> None:
        """Kills all processes inside."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of the terminal; does nothing without one."""
        ...


class SelfCheck(Struct, frozen=True):
    """One check of the self-test."""

    id: str
    ok: bool
    detail: str = ""


class SelfTest(Struct, frozen=True):
    """Result of the self-test of a backend."""

    backend: str
    """`bubblewrap`, `docker` or `podman`; `none` without a backend."""
    usable: bool
    """True if commands may run in this backend."""
    checks: tuple[SelfCheck, ...] = ()
    remedy: str = ""
    """The next step for a person if it is not usable, or empty."""


class Sandbox(Protocol):
    """The sandboxes of an installation; fills the slot `sandbox`."""

    def applies(self, agent: AgentId, session: str) -> bool:
        """Returns whether commands of this session run inside, by `agents.*.sandbox.mode`."""
        ...

    async def usable(self, agent: AgentId | None = None) -> SelfTest:
        """Returns the self-test of the backend that is configured for the agent.

        The test runs once; after a failure it runs again when a minute has passed. It raises
        nothing: without a backend `usable` is false, and `remedy` has the next step.
        """
        ...

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[SandboxProcess]:
        """Runs a command inside during an `async with` block; its end ends all its processes.

        The caller applies a time limit by leaving the block. All processes inside also end when
        this process dies.

        Raises:
            SandboxError: no backend is usable, or the spec asks for more than the configuration
                grants. The command is never run outside instead.
        """
        ...
