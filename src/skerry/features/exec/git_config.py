"""Finds settings of a repository in the workspace through which git would run a program.

The words of `git status` are harmless, but git runs the programs that `core.fsmonitor`, filters and
hooks of the repository name. The `.git` at the top of a workspace is closed to tools and to
commands in the sandbox, but a model can create a repository below it. The same is true of a
submodule, which git inspects for changes, and of a folder that receives a push, whose hooks git
runs.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 * 1024
_LINE: Final = re.compile(
    r"""\s*(?:
        (?P<nothing>[#;].*)?
        |\[\s*(?P<section>[A-Za-z0-9-]+)(?:\s+"[^"\\\n]*")?\s*\]\s*
        |(?P<key>[A-Za-z][A-Za-z0-9-]*)(?:\s*=(?P<value>.*))?
    )""",
    re.VERBOSE,
)
_KEYS: Final = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode"
    " symlinks autocrlf eol safecrlf abbrev quotepath",
    "remote": "url fetch pushurl tagopt prune",
    "branch": "remote merge rebase description",
    "submodule": "url active",
    "user": "name email",
    "init": "defaultbranch",
    "pull": "rebase ff",
    "push": "default",
    "color": "ui",
    "advice": "detachedhead",
}
"""Keys that name no program, no file and no other repository."""
_REMOTE: Final = re.compile(
    r"\"?(?:https?|ssh|git)://[^\s\"]+\"?|[\w.-]{1,64}@[\w.-]{1,255}:[^\s\"]*", re.ASCII
)
"""A repository address in the form of another machine's."""
_REMOTE_NAME: Final = re.compile(r"[\w-][\w.-]*", re.ASCII)
_FORMS: Final = {
    ("remote", "url"): _REMOTE,
    ("remote", "pushurl"): _REMOTE,
    ("branch", "remote"): _REMOTE_NAME,
}
"""Keys whose value may be a path to a repository of this machine."""
_GITLINK: Final = b"\x00\x00\xe0\x00"
"""Mode of a submodule in an index."""
_MAX_INDEX: Final = 64 << 20
_CHUNK: Final = 1 << 20
_BARE: Final = ("HEAD", "objects", "refs")
"""Entries by which git recognizes a folder as a repository."""


def problem(cwd: Path, root: Path | None = None, argv: Sequence[str] = ()) -> str:
    """Returns the reason why a git command needs a person's decision, or an empty string.

    Args:
        cwd: Folder in which git starts.
        root: Workspace, whose `.git` only the owner can write; folders above it are not
            examined.
        argv: The command.

    """
    targets = argv[2:] if argv[1:2] == ("push",) else ()
    for folder in (cwd, *cwd.parents):
        for target in map(_operand, targets):
            if target.startswith("file:") or os.path.lexists(folder / target):
                return f"{target} is a folder, whose hooks git would run"
        if all(os.path.lexists(folder / name) for name in _BARE):
            return f"{folder} itself has the layout of a repository"
        if os.path.lexists(folder / ".git"):
            reason = "" if folder == root else _repository(folder / ".git")
            return reason or _submodules(folder / ".git")
        if folder == root:
            return ""
    return ""


def _operand(word: str) -> str:
    return word.rpartition("=")[2] if word.startswith("-") else word


def _submodules(folder: Path) -> str:
    """Returns the reason why the index may refer git to another repository, or an empty string."""
    path = folder / "index"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_INDEX:
            return f"{path} is not a file, or has more than {_MAX_INDEX} bytes"
        if _has_link(path):
            return f"{folder.parent} has submodules, whose settings may name programs"
        if any(entry.name.startswith("sharedindex.") for entry in _entries(folder)):
            return f"{folder} has an index in two files"
    except FileNotFoundError:
        return ""  # no file was added yet
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return ""


def _has_link(path: Path) -> bool:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        before, remaining = b"", _MAX_INDEX
        while remaining > 0 and (chunk := file.read(_CHUNK)):
            if _GITLINK in before + chunk:
                return True
            before, remaining = chunk[1 - len(_GITLINK) :], remaining - len(chunk)
    return remaining <= 0


def _repository(folder: Path) -> str:
    """Returns the part of a repository through which git may run a program."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return f"{folder} refers to a repository elsewhere"
        hooks = folder / "hooks"
        if hooks.is_symlink() or any(not hook.name.endswith(".sample") for hook in _entries(hooks)):
            return f"{folder} has hooks"
        elsewhere = ("commondir", "config.worktree", "objects/info/alternates")
        if any(os.path.lexists(folder / name) for name in elsewhere) or any(
            any(_entries(folder / name)) for name in ("remotes", "branches")
        ):
            return f"{folder} refers to a repository elsewhere"
        return _settings(folder / "config")
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"


def _entries(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


def _settings(path: Path) -> str:
    """Returns the first key of a configuration that is not known to be harmless."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return f"{path} is not a file"
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return f"{path} has more than {MAX_BYTES} bytes"
    section = ""
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or line.endswith("\\"):
            return f"{path} has an unrecognized line"
        section = (match["section"] or section).lower()
        key = (match["key"] or "").lower()
        if key and key not in _KEYS.get(section, "").split():
            return f"{path} sets {section}.{key}"
        form, value = _FORMS.get((section, key)), (match["value"] or "").strip()
        is_folder = form is _REMOTE_NAME and os.path.lexists(path.parent.parent / value)
        if form is not None and (is_folder or not form.fullmatch(value)):
            return f"{path} has a folder or an invalid address in {section}.{key}"
    return ""
