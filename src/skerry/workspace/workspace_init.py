"""Initial files and directories of a new workspace."""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from skerry.infra.atomic import make_private
from skerry.workspace.prompt_files import BOOTSTRAP, MEMORY, ORDER

DIRECTORIES: Final = ("memory", "skills", "canvas")
_TEMPLATES: Final = Path(__file__).parent / "templates"
TEMPLATE_DIGESTS: Final = frozenset(
    {
        "3ca070cae4345694e8e86966229e95a0aec2748da965d71553b971d1b253e16c",  # AGENTS.md
        "fab74ed566c836455183365a3b9bdbaa842ffb1aee7c9e14d0ee00ecd20b4b3c",  # BOOTSTRAP.md
        "cea16a0ee29c76ab609311c6cba3bb7830ec48a703fde37c4e80587e6e27f45f",  # HEARTBEAT.md
        "20bac278bdd955ee2cfc63249dc51306745131c49bce429d2cbbc3c09250f46c",  # IDENTITY.md
        "a957a44720d8d1e64a17ca0355d5a613ac3567617e9f335fc012f0f6e30b5047",  # SOUL.md
        "c5e4858c54c860ce5d077b764a8bfb89b1ea3006cb753ad26672756bc74698ee",  # TOOLS.md
        "b8cf8b40f1fa62cd2abd0258bc7e50cccb8c3bf073550dacd1ac77bf1e32b233",  # USER.md
    }
)
"""SHA-256 of every template of every version. A template that changes adds a line."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def seed(workspace: Path, *, skip: bool = False) -> list[str]:
    """Creates the workspace and, if it is new, its files; returns the names of those written.

    A workspace that has one of the files belongs to the person and is not changed, even if other
    files are missing, unless a first start was interrupted. A directory with other content gets no
    BOOTSTRAP.md. No file is ever overwritten.

    Args:
        workspace: Its directory; missing parents are created.
        skip: Write no files (`agents.defaults.skipBootstrap`).

    """
    make_private(workspace)
    if skip:
        return []
    names = {path.name for path in workspace.iterdir()}
    interrupted = BOOTSTRAP in names
    if not interrupted and names.intersection(ORDER):
        return []
    used = {name for name in names - set(DIRECTORIES) if not name.startswith(".")}
    created = []
    for name in reversed(ORDER):  # BOOTSTRAP.md first: while it exists, the seeding is unfinished
        if name == MEMORY or name in names or (name == BOOTSTRAP and used):
            continue
        with suppress(FileExistsError):
            descriptor = os.open(workspace / name, _NEW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write((_TEMPLATES / name).read_bytes())
            created.append(name)
    for name in DIRECTORIES:
        (workspace / name).mkdir(mode=0o700, exist_ok=True)
    return created


def is_untouched(data: bytes) -> bool:
    """Returns whether the content equals a template of this version or an earlier one."""
    return sha256(data).hexdigest() in TEMPLATE_DIGESTS
