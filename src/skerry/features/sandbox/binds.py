"""Host folders that are bound into sandboxes: those of the configuration, and those of skills.

`policy.binds` checks the text of the configuration first; this module checks the real path. A mount
uses the opened descriptor, so that a later link changes nothing.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from skerry.config.protected import Protected
from skerry.config.root import Config
from skerry.features.sandbox.stage import Mount
from skerry.model.errors import SandboxError
from skerry.model.skill import SKILL_MD
from skerry.policy.binds import SECRETS, Bind, BindError, parsed, refused
from skerry.ports.sandbox import WORKDIR

_RESERVED: Final = (WORKDIR, *map(PurePosixPath, ("/dev", "/proc", "/sys")))
"""Folders inside in which no mount point can be made."""
_SKILL: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def opened(
    texts: Sequence[str], config: Config, guard: Protected, environ: Mapping[str, str]
) -> list[Mount]:
    """Returns the mounts of the binds; the caller closes them with `close`.

    Raises:
        SandboxError: a bind is refused, or its source cannot be opened.
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
        message = f"The sandbox cannot bind a folder: {reason or error}"
        if isinstance(error, OSError):
            message = f"The sandbox cannot bind {error.filename}: {error.strerror}."
        raise SandboxError(message, "Correct sandbox.docker.binds.") from error
    return mounts


def opened_skills(folders: Sequence[Path], guard: Protected) -> list[Mount]:
    """Returns a read-only mount of each folder of a skill at its own path; outer folders first.

    The caller closes them with `close`. A folder whose path the sandbox uses is left out.

    Raises:
        SandboxError: a folder cannot be opened, is a link, has no SKILL.md, or contains files of
            the gateway.
    """
    mounts: list[Mount] = []
    for number, folder in enumerate(sorted(set(folders))):
        if any(folder.is_relative_to(taken) for taken in _RESERVED):
            continue
        try:
            descriptor = os.open(folder, _SKILL)
            mounts.append(Mount(descriptor, str(folder), name=f"skill-{number}"))
            _check_skill(folder, descriptor, guard)
        except (BindError, OSError) as error:
            close(mounts)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = f"The sandbox cannot show the skill in {folder}: {reason}."
            remedy = "Correct the folder, or disable the skill in skills.entries."
            raise SandboxError(message, remedy) from error
    return mounts


def close(mounts: Sequence[Mount]) -> None:
    """Closes the descriptors."""
    for mount in mounts:
        with suppress(OSError):
            os.close(mount.descriptor)


def _roots(config: Config, environ: Mapping[str, str]) -> list[PurePosixPath]:
    """Returns the additional folders below which a source may be."""
    homes = [environ["HOME"]] if environ.get("HOME", "").startswith("/") else []
    workspaces = [str(config.workspace(agent).resolve()) for agent in config.agents.ids]
    return [PurePosixPath(path) for path in (*homes, *workspaces)]


def _check(bind: Bind, descriptor: int, roots: Sequence[PurePosixPath], guard: Protected) -> None:
    """Checks an opened source. Raises `BindError`."""
    real = Path(f"/proc/self/fd/{descriptor}").readlink()
    status = os.fstat(descriptor)
    reason = refused(PurePosixPath(real), roots)
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        reason = "the source is neither a folder nor a file"
    elif stat.S_ISREG(status.st_mode) and status.st_nlink != 1:
        reason = "the file has a second name (hard link)"
    elif stat.S_ISDIR(status.st_mode):
        reason = reason or _within(real, descriptor)
    reason = reason or _gateway_reason(real, guard, writes=bind.is_writable)
    if reason:
        raise BindError(f"{bind.source} leads to {real}: {reason}.")


def _check_skill(folder: Path, descriptor: int, guard: Protected) -> None:
    """Checks the opened folder of a skill. Raises `BindError` or `OSError`."""
    real = Path(f"/proc/self/fd/{descriptor}").readlink()
    if real != folder:
        raise BindError(f"it leads to {real}")
    if not stat.S_ISREG(os.stat(SKILL_MD, dir_fd=descriptor, follow_symlinks=False).st_mode):
        raise BindError(f"{SKILL_MD} is not a file")
    protected = (guard.state, *guard.configuration, *guard.workspaces)
    inner = next((path for path in protected if path.is_relative_to(real)), None)
    if inner is not None:
        raise BindError(f"it contains {inner}, which belongs to the gateway")


def _within(real: Path, descriptor: int) -> str:
    """Returns the reason why the entries of a folder forbid its bind, or an empty string."""
    for name in SECRETS:
        with suppress(OSError):
            os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            return f"the folder contains {name}, which holds credentials"
    return "" if real.is_absolute() else "this process cannot reach the path"


def _gateway_reason(real: Path, guard: Protected, *, writes: bool) -> str:
    """Returns the reason why the gateway's files forbid the bind, or an empty string."""
    inside = real / "x" if real.is_dir() else real
    reason = (guard.writing if writes else guard.reading)(inside)
    unwritable = (*guard.code, *guard.workspaces) if writes else ()
    protected = (guard.state, *guard.configuration, *unwritable)
    inner = next((path for path in protected if path.is_relative_to(real)), None)
    if inner is not None:
        return f"it contains {inner}, which belongs to the gateway"
    if writes and any(real.is_relative_to(workspace) for workspace in guard.workspaces):
        return "it is in a workspace, which workspaceAccess binds"
    return reason or ""
