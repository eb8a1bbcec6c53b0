"""Looks whether git would run a program that a repository of the workspace names.

`git status` is harmless by its words, and runs what `core.fsmonitor`, filters and hooks of the
repository name. The `.git` at the top of a workspace is closed to tools and to commands in the
sandbox; a repository below can be one that a model made.
"""

import os
import re
import stat
from collections.abc import Iterator
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
_BARE: Final = ("HEAD", "objects", "refs")
"""Names in a folder that git takes for a repository."""


def problem(cwd: Path, root: Path | None = None) -> str:
    """Returns why a command of git must be looked at in a folder; empty where it need not.

    Args:
        cwd: Folder in which git starts.
        root: Workspace, whose own `.git` nobody but the owner writes; above it nothing is looked
            at.

    """
    for folder in (cwd, *cwd.parents):
        if all(os.path.lexists(folder / name) for name in _BARE):
            return f"{folder} itself is laid out as a repository"
        if os.path.lexists(folder / ".git"):
            return "" if folder == root else _repository(folder / ".git")
        if folder == root:
            return ""
    return ""


def _repository(folder: Path) -> str:
    """Returns the part of a repository that may run a program."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return f"{folder} names a repository elsewhere"
        hooks = folder / "hooks"
        if hooks.is_symlink() or any(not hook.name.endswith(".sample") for hook in _entries(hooks)):
            return f"{folder} has hooks"
        if any(os.path.lexists(folder / name) for name in ("commondir", "config.worktree")):
            return f"{folder} names a repository elsewhere"
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
            return f"{path} is no file"
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return f"{path} has more than {MAX_BYTES} bytes"
    section = ""
    for line in data.decode("utf-8", "replace").splitlines():
        found = _LINE.fullmatch(line)
        if found is None or line.endswith("\\"):
            return f"{path} has a line that is not understood"
        section = (found["section"] or section).lower()
        key = (found["key"] or "").lower()
        if key and key not in _KEYS.get(section, "").split():
            return f"{path} sets {section}.{key}"
    return ""
