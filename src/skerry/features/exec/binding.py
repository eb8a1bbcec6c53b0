"""Digest of everything that an approval of a command covers, with the files that it names."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

MAX_FILES: Final = 64
"""Files of which the content is read; of further files, size and times are part of the digest."""
MAX_BYTES: Final = 8 * 1024 * 1024
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
    file_count = 0
    for word in sorted(set(words)):
        digest.update(f"\0{word}\0".encode("utf-8", "surrogateescape"))
        for name in _file_names(word):
            content = _content(cwd / name, reads=file_count < MAX_FILES)
            file_count += bool(content)
            digest.update(content)
    return digest.digest()


def _file_names(word: str) -> Iterable[str]:
    """Returns the word, and the value that it attaches to an option, each of which may be a file.

    Forms: `--file=NAME`, `key=NAME`, `-fNAME` and `@NAME`.
    """
    values = [word.partition("=")[2], word[2:] if word.startswith("-") else ""]
    values.append(word[1:] if word.startswith("@") else "")
    return [word, *dict.fromkeys(value for value in values if value)]


def _content(path: Path, *, reads: bool) -> bytes:
    """Returns a digest of a regular file; empty for other kinds.

    Without `reads`, size and times stand for the content. A program can set the time of a change,
    but not that of the inode.
    """
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
            digest.update(file.read(MAX_BYTES if reads else 0))
        if status.st_size > MAX_BYTES or not reads:
            digest.update(f"{status.st_mtime_ns} {status.st_ctime_ns}".encode())
        return digest.digest()
    except OSError:
        return b"?"
    finally:
        os.close(descriptor)
