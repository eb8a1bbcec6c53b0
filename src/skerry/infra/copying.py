"""Copies a directory of plain files, never through a link, over a file only where it gives way."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from skerry.infra.atomic import make_private, write_atomic

MOST_BYTES = 256 * 1024 * 1024
"""Bytes of one file; a larger one is left out."""


@dataclass(slots=True)
class Copied:
    """Result of a copy."""

    copied: int = 0
    bytes: int = 0
    same: int = 0
    """Number of files that were there already."""
    replaced: list[str] = field(default_factory=list)
    """Relative paths of files whose place a copy took."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Relative paths that were not copied, and why."""


def copy_tree(
    origin: Path,
    target: Path,
    *,
    write: bool,
    skip: Callable[[Path], str] = lambda _relative: "",
    gives_way: Callable[[Path, bytes], bool] = lambda _relative, _data: False,
) -> Copied:
    """Copies what `target` lacks, each file whole or not at all (0600); only looks if not `write`.

    Args:
        origin: The directory to copy.
        target: The directory to fill.
        write: False counts only.
        skip: From a relative path, why it is not copied; empty where it is.
        gives_way: From a relative path and what `target` has there, whether the copy replaces it.

    Raises:
        OSError: something cannot be read or written.
    """
    done = Copied()
    for folder, folders, files in os.walk(origin, followlinks=False):
        relative = Path(folder).relative_to(origin)
        for name in sorted(folders):
            if (Path(folder) / name).is_symlink():
                done.refused.append((str(relative / name), "it is a link"))
        folders[:] = sorted(name for name in folders if not (Path(folder) / name).is_symlink())
        if write:
            make_private(target / relative)
        for name in sorted(files):
            if why := skip(relative / name):
                done.refused.append((str(relative / name), why))
                continue
            _copy_file(Path(folder) / name, target, relative / name, done, gives_way, write=write)
    return done


def _copy_file(
    file: Path,
    target: Path,
    relative: Path,
    done: Copied,
    gives_way: Callable[[Path, bytes], bool],
    *,
    write: bool,
) -> None:
    if file.is_symlink() or not file.is_file():
        done.refused.append((str(relative), "it is a link, or no plain file"))
        return
    if file.stat().st_size > MOST_BYTES:
        done.refused.append((str(relative), f"it is larger than {MOST_BYTES} bytes"))
        return
    data, destination = file.read_bytes(), target / relative
    if destination.is_symlink() or destination.exists():
        present = (
            destination.read_bytes()
            if destination.is_file() and not destination.is_symlink()
            else None
        )
        if present == data:
            done.same += 1
            return
        if present is None or not gives_way(relative, present):
            done.refused.append((str(relative), "there is another one already, which is kept"))
            return
        done.replaced.append(str(relative))
    if write:
        write_atomic(destination, data)
    done.copied += 1
    done.bytes += len(data)
