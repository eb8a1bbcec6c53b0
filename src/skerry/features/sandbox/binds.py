"""Folders of this machine that the configuration gives to sandboxes, opened and checked again.

The first pass, on the text, is `policy.binds`; this is the second: on where the path leads. What is
mounted is what was opened, so that a link that is made afterwards changes nothing.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from skerry.config.protected import Protected
from skerry.config.root import Config
from skerry.features.sandbox.stage import Mount
from skerry.model.errors import SandboxError
from skerry.policy.binds import SECRETS, Bind, BindError, parsed, refused


def opened(
    texts: Sequence[str], config: Config, guard: Protected, environ: Mapping[str, str]
) -> list[Mount]:
    """Returns the mounts of the binds; `close` them.

    Raises:
        SandboxError: one is refused, or cannot be opened.
    """
    roots = _roots(config, environ)
    mounts: list[Mount] = []
    try:
        for text in texts:
            bind = parsed(text, roots)
            descriptor = os.open(bind.source, os.O_PATH | os.O_CLOEXEC)
            mounts.append(Mount(descriptor, str(bind.target), bind.is_writable))
            _check(bind, descriptor, roots, guard)
    except (BindError, OSError) as error:
        close(mounts)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"A folder cannot be given to the sandbox: {reason or error}"
        if isinstance(error, OSError):
            message = f"{error.filename} cannot be given to the sandbox: {error.strerror}."
        raise SandboxError(message, "Correct sandbox.docker.binds.") from error
    return mounts


def close(mounts: Sequence[Mount]) -> None:
    """Closes the descriptors."""
    for mount in mounts:
        with suppress(OSError):
            os.close(mount.descriptor)


def _roots(config: Config, environ: Mapping[str, str]) -> list[PurePosixPath]:
    """Returns the folders beneath which a source may lie besides those of every machine."""
    homes = [environ["HOME"]] if environ.get("HOME", "").startswith("/") else []
    workspaces = [str(config.workspace(agent).resolve()) for agent in config.agents.ids]
    return [PurePosixPath(path) for path in (*homes, *workspaces)]


def _check(bind: Bind, descriptor: int, roots: Sequence[PurePosixPath], guard: Protected) -> None:
    """Checks what was opened. Raises `BindError`."""
    real = Path(f"/proc/self/fd/{descriptor}").readlink()
    status = os.fstat(descriptor)
    reason = refused(PurePosixPath(real), roots)
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        reason = "it is neither a folder nor a file"
    elif stat.S_ISREG(status.st_mode) and status.st_nlink != 1:
        reason = "it is a second name of a file"
    elif stat.S_ISDIR(status.st_mode):
        reason = reason or _within(real, descriptor)
    reason = reason or _ours(real, guard, writes=bind.is_writable)
    if reason:
        raise BindError(f"{bind.source} leads to {real}: {reason}.")


def _within(real: Path, descriptor: int) -> str:
    """Returns why a folder is refused for what is directly in it."""
    for name in SECRETS:
        with suppress(OSError):
            os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            return f"it has {name}, which holds credentials"
    return "" if real.is_absolute() else "it is not reachable here"


def _ours(real: Path, guard: Protected, *, writes: bool) -> str:
    """Returns why a path is refused since it is the gateway's."""
    inside = real / "x" if real.is_dir() else real
    reason = (guard.writing if writes else guard.reading)(inside)
    written = (*guard.code, *guard.workspaces) if writes else ()
    kept = (guard.state, *guard.configuration, *written)
    inner = next((path for path in kept if path.is_relative_to(real)), None)
    if inner is not None:
        return f"{inner}, which is the gateway's, lies in it"
    if writes and any(real.is_relative_to(workspace) for workspace in guard.workspaces):
        return "it lies in a workspace, which is bound by workspaceAccess"
    return reason or ""
