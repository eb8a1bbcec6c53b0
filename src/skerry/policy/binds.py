"""Rules on folders of this machine that a sandbox may be given: by text, and by where they lead.

The text is checked when the configuration is read. Where it leads is checked when a command starts,
on the object that was opened, so that a link that is made in between leads nowhere (pure).
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
"""Folders of which nothing is ever given, nor what is around them."""
_TWINS: Final = tuple(PurePosixPath("/private") / path.relative_to("/") for path in CLOSED)
"""Their paths on a Mac."""
HOMES: Final = (PurePosixPath("/home"), PurePosixPath("/Users"))
"""Folders of homes, of which none is given as a whole."""
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
"""Folders beneath which a source may lie; beside these, the person's home and the workspaces."""
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
"""Names that hold credentials, wherever they are."""
SOCKETS: Final = frozenset({"docker.sock", "podman.sock", "containerd.sock", "crio.sock"})
"""Sockets by which a program gets this machine."""
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
"""Targets that the sandbox uses itself; nothing is bound beneath them or around them."""
_PARTS: Final = (2, 3)


class Bind(Struct, frozen=True):
    """A folder or file of this machine and its path inside."""

    source: PurePosixPath
    target: PurePosixPath
    is_writable: bool = False


class BindError(ValueError):
    """A bind is refused; the message has its text and the reason."""


def parsed(text: str, roots: Iterable[PurePosixPath] = ()) -> Bind:
    """Returns the bind `source:target[:ro|rw]`, whose source is checked as text.

    `roots` are folders beneath which a source may lie, besides `ROOTS`; none at all leaves that
    open until the source is opened.

    Raises:
        BindError: the form is wrong, or the source or the target is refused.
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
    """Returns why an absolute, normalised path is not given to a sandbox; empty where it may be.

    It is asked twice: for the path as it was written, and for where it leads.
    """
    folded = PurePosixPath(str(source).casefold())
    for closed in (*CLOSED, *_TWINS):
        if folded.is_relative_to(closed):
            return f"nothing beneath {closed} is ever given"
        if closed.is_relative_to(folded):
            return f"{closed} lies beneath it"
    if source in HOMES or source.parent in HOMES:
        return "a home is never given as a whole; name a folder of it"
    return _secret(folded) or _outside(source, tuple(roots))


def _secret(folded: PurePosixPath) -> str:
    name = next((name for name in folded.parts if name in SECRETS), None)
    if name is not None:
        return f"{name} holds credentials"
    if folded.name in SOCKETS or folded.suffix in {".sock", ".socket"}:
        return "a socket of a service is never given"
    return ""


def _outside(source: PurePosixPath, roots: tuple[PurePosixPath, ...]) -> str:
    allowed = (*ROOTS, *roots)
    if not roots or any(source != root and source.is_relative_to(root) for root in allowed):
        return ""
    return f"it is beneath none of {', '.join(sorted(map(str, allowed)))}"


def _refused_target(target: PurePosixPath) -> str:
    for reserved in _RESERVED:
        if target.is_relative_to(reserved) or reserved.is_relative_to(target):
            return f"the target {target} is taken by the sandbox"
    return ""
