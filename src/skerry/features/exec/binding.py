"""Digest of everything that an approval of a command covers, with the files that it names."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

MOST_FILES: Final = 64
MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes read of one file; for a longer file its size and times are part of the digest."""


def binding(
    command: str,
    words: Iterable[str],
    cwd: Path,
    env: Mapping[str, str],
    about: Iterable[str],
) -> bytes:
    """Returns the digest. Reads files, so it blocks.

    Args:
        command: Text of the command.
        words: Words of its simple commands, and the paths of its programs.
        cwd: Folder in which it starts.
        env: Variables that the call sets.
        about: Host, agent and session.

    """
    digest = hashlib.sha256()
    facts = (command, str(cwd), sorted(env.items()), list(about))
    digest.update(msgspec.json.encode(facts))
    for word in sorted(set(words))[:MOST_FILES]:
        digest.update(f"\0{word}\0".encode("utf-8", "surrogateescape"))
        digest.update(_content(cwd / word))
    return digest.digest()


def _content(path: Path) -> bytes:
    """Returns a digest of a regular file; empty for other kinds."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        digest = hashlib.sha256(f"{status.st_dev} {status.st_ino} {status.st_size}".encode())
        with os.fdopen(os.dup(descriptor), "rb") as file:
            digest.update(file.read(MOST_BYTES))
        if status.st_size > MOST_BYTES:
            digest.update(str(status.st_mtime_ns).encode())
        return digest.digest()
    except OSError:
        return b"?"
    finally:
        os.close(descriptor)
