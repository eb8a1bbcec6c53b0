"""Decides whether the output of a command may contain text of others than the owner.

A command with network access may return anybody's text, and on this machine every program has that
access. A few programs are listed that use no network and run no other program.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from skerry.config.sandbox import SandboxConfig
from skerry.features.exec.command_check import SegmentDecision
from skerry.model.origin import Origin
from skerry.policy.file_gate import CLOCK_NS, FileGate
from skerry.ports.sandbox import SandboxProcess
from skerry.ports.tool import ToolContext

_FACTS: Final = frozenset(
    {"basename", "df", "dirname", "echo", "false", "free", "id", "nproc", "printf", "pwd"}
    | {"true", "uname", "uptime", "whoami"}
)
"""Programs that print their arguments or facts about this machine."""
_READERS: Final = frozenset(["cat", "cut", "date", "du", "head", "ls", "nl", "stat", "tail", "wc"])
"""Programs that read only their standard input and the files in their arguments."""
_SYSTEM: Final = ("/usr/bin/", "/bin/")


def is_local(sandbox: SandboxConfig) -> bool:
    """Returns true when commands in the sandbox read only the agent's workspace, without network.

    A folder of the sandbox, or a bound one, has no records of the origin of its files.
    """
    docker, access = sandbox.docker, sandbox.workspace_access
    return docker.network == "none" and access != "none" and not docker.binds


def has_no_foreign_text(segments: Sequence[SegmentDecision], root: Path, cwd: Path) -> bool:
    """Returns true when a command's output has no text of others, except from files in `root`.

    Args:
        segments: Its simple commands; empty when the line was refused.
        root: The workspace, whose files have recorded origins.
        cwd: Folder in which the command starts.

    """
    home = root.resolve()
    return bool(segments) and all(_is_plain(segment, home, cwd) for segment in segments)


def _is_plain(segment: SegmentDecision, root: Path, cwd: Path) -> bool:
    name, program = segment.argv[0], segment.program or ""
    if not program.startswith(_SYSTEM):
        return False
    # A name with a folder is in neither set: it may be any program.
    return name in _FACTS or (name in _READERS and _reads_below(segment.argv[1:], root, cwd))


def _reads_below(words: Sequence[str], root: Path, cwd: Path) -> bool:
    """Returns true when a command names no file outside of the workspace."""
    if not cwd.resolve().is_relative_to(root):
        return False
    options = [word for word in words if word.startswith("-")]
    operands = [word for word in words if not word.startswith("-")]
    return not any("/" in word or "from" in word for word in options) and all(
        (cwd / word).resolve().is_relative_to(root) for word in operands
    )


@asynccontextmanager
async def recorded(
    opens: Callable[[bool], AbstractAsyncContextManager[SandboxProcess]],
    context: ToolContext,
    words: Origin,
    terminal: bool = False,  # noqa: FBT001, FBT002 - the signature of `Command.open`
) -> AsyncIterator[SandboxProcess]:
    """Runs a command for a block; then records the origin of the files that it changed.

    The block may end long after the call, and by an abort.
    """
    rules, began = context.workspace.rules, time.time_ns() - CLOCK_NS
    try:
        async with opens(terminal) as process:
            yield process
    finally:
        if isinstance(rules, FileGate) and rules.may_have_foreign_text(words):
            note = partial(rules.note_changes, context.workspace.root, began, words)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(note)
