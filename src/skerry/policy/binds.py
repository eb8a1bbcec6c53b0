"""Rules on folders of this machine that may be bound into a sandbox (pure).

The text of a bind is checked when the configuration is read. The resolved path is checked when a
command starts, on the opened object, so that a link that was made in between has no effect.
"""

import posixpath
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

CLOSED: Final = (
    PurePosixPath("/etc"),
    PurePosixPath("/proc"),
    PurePosixPath("/sys"),
    PurePosixPath("/dev"),
    PurePosixPath("/root"),
    PurePosixPath("/boot"),
    PurePosixPath("/run"),
    PurePosixPath("/var/run"),
    PurePosixPath("/var/lib/docker"),
    PurePosixPath("/var/spool"),
)
"""Folders that are never bound, nor any folder in them or around them."""
_MACOS_PATHS: Final = tuple(PurePosixPath("/private") / path.relative_to("/") for path in CLOSED)
"""The paths of these folders on macOS."""
HOMES: Final = (PurePosixPath("/home"), PurePosixPath("/Users"))
"""Folders of home directories, which are never bound as a whole."""
ROOTS: Final = (
    *HOMES,
    PurePosixPath("/srv"),
    PurePosixPath("/opt"),
    PurePosixPath("/mnt"),
    PurePosixPath("/media"),
    PurePosixPath("/data"),
    PurePosixPath("/tmp"),  # noqa: S108 - no file of ours
    PurePosixPath("/var/tmp"),  # noqa: S108
    PurePosixPath("/usr/local"),
    PurePosixPath("/usr/share"),
)
"""Folders that may contain a source, besides the person's home and the workspaces."""
SECRETS: Final = frozenset(
    {
        ".aws",
        ".azure",
        ".cargo",
        ".config",
        ".docker",
        ".gcloud",
        ".git-credentials",
        ".gnupg",
        ".kube",
        ".mozilla",
        ".netrc",
        ".npm",
        ".npmrc",
        ".openclaw",
        ".password-store",
        ".pypirc",
        ".skerry",
        ".ssh",
        ".vault-token",
    }
)
"""Names of files and folders with credentials, which are refused in any folder."""
SOCKETS: Final = frozenset({"docker.sock", "podman.sock", "containerd.sock", "crio.sock"})
"""Sockets that give a program control of this machine."""
_RESERVED: Final = (
    PurePosixPath("/workspace"),
    PurePosixPath("/agent"),
    PurePosixPath("/tmp"),  # noqa: S108 - a path inside
    PurePosixPath("/bin"),
    PurePosixPath("/dev"),
    PurePosixPath("/etc"),
    PurePosixPath("/lib"),
    PurePosixPath("/lib32"),
    PurePosixPath("/lib64"),
    PurePosixPath("/proc"),
    PurePosixPath("/run"),
    PurePosixPath("/sbin"),
    PurePosixPath("/sys"),
    PurePosixPath("/usr"),
)
"""Targets that the sandbox uses; nothing is bound in them or around them."""
_PARTS: Final = (2, 3)


class Bind(Struct, frozen=True):
    """A folder or file of this machine and its path inside."""

    source: PurePosixPath
    target: PurePosixPath
    is_writable: bool = False


class BindError(ValueError):
    """A bind is refused; the message has the bind and the reason."""


def parsed(text: str, roots: Iterable[PurePosixPath] = ()) -> Bind:
    """Returns the bind `source:target[:ro|rw]`; the source is checked as text.

    `roots` are folders that may contain the source, besides `ROOTS`. Without roots this is checked
    only when the source is opened.

    Raises:
        BindError: the form is not valid, or the source or the target is refused.
    """
    parts = text.split(":")
    if "\0" in text or len(parts) not in _PARTS or not all(parts):
        raise BindError(f"{text!r} has not the form /source:/target[:ro|rw].")
    mode = "ro" if len(parts) == min(_PARTS) else parts[2]
    if mode not in {"ro", "rw"}:
        raise BindError(f"{text!r}: the mode {mode!r} is neither ro nor rw.")
    if not parts[0].startswith("/") or not parts[1].startswith("/"):
        raise BindError(f"{text!r}: source and target must be absolute paths.")
    if ".." in PurePosixPath(parts[1]).parts:
        raise BindError(f"{text!r}: the target must not contain `..`.")
    source, target = map(normalised, parts[:2])
    reason = refused(source, roots) or _refused_target(target)
    if reason:
        raise BindError(f"{text!r}: {reason}.")
    return Bind(source, target, mode == "rw")


def normalised(path: str) -> PurePosixPath:
    """Returns an absolute path without `.`, `..` and double slashes."""
    return PurePosixPath(posixpath.normpath("/" + path.lstrip("/")))


def refused(source: PurePosixPath, roots: Iterable[PurePosixPath] = ()) -> str:
    """Returns the reason why an absolute, normalised path is refused; empty if it may be bound.

    It is called twice: for the configured path, and for the resolved path.
    """
    folded = PurePosixPath(str(source).casefold())
    for closed in (*CLOSED, *_MACOS_PATHS):
        if folded.is_relative_to(closed):
            return f"nothing in {closed} is ever bound"
        if closed.is_relative_to(folded):
            return f"it contains {closed}"
    if source in HOMES or source.parent in HOMES:
        return "a home directory is never bound as a whole; name a folder in it"
    return _secret(folded) or _outside(source, tuple(roots))


def _secret(folded: PurePosixPath) -> str:
    name = next((name for name in folded.parts if name in SECRETS), None)
    if name is not None:
        return f"{name} contains credentials"
    if folded.name in SOCKETS or folded.suffix in {".sock", ".socket"}:
        return "a socket of a service is never bound"
    return ""


def _outside(source: PurePosixPath, roots: tuple[PurePosixPath, ...]) -> str:
    allowed = (*ROOTS, *roots)
    if not roots or any(source != root and source.is_relative_to(root) for root in allowed):
        return ""
    return f"it is in none of {', '.join(sorted(map(str, allowed)))}"


def _refused_target(target: PurePosixPath) -> str:
    for reserved in _RESERVED:
        if target.is_relative_to(reserved) or reserved.is_relative_to(target):
            return f"the sandbox uses the target {target}"
    return ""
