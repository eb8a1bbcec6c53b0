"""What a new workspace gets: the files that an agent starts with, and its directories."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.agent.workspace import BOOTSTRAP, MEMORY, ORDER
from skerry.infra.atomic import make_private

DIRECTORIES: Final = ("memory", "skills", "canvas")
_TEMPLATES: Final = Path(__file__).parent / "templates"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def seed(workspace: Path, *, skip: bool = False) -> list[str]:
    """Make the workspace and, where it is new, its files; return which were written.

    A workspace that has one of the files is the person's: it stays as it is, also where others are
    missing, but for a first start that was interrupted. In a directory with other things nobody
    is to be greeted: it gets no BOOTSTRAP.md. Nothing is ever overwritten.

    Args:
        workspace: Its directory; those above it that are missing are made.
        skip: Write no files (`agents.defaults.skipBootstrap`).

    """
    make_private(workspace)
    if skip:
        return []
    there = {one.name for one in workspace.iterdir()}
    interrupted = BOOTSTRAP in there
    if not interrupted and there.intersection(ORDER):
        return []
    used = {name for name in there - set(DIRECTORIES) if not name.startswith(".")}
    written = []
    for name in reversed(ORDER):  # BOOTSTRAP.md first: while it is there, the rest is still to do
        if name == MEMORY or name in there or (name == BOOTSTRAP and used):
            continue
        with suppress(FileExistsError):
            descriptor = os.open(workspace / name, _NEW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write((_TEMPLATES / name).read_bytes())
            written.append(name)
    for name in DIRECTORIES:
        (workspace / name).mkdir(mode=0o700, exist_ok=True)
    return written
