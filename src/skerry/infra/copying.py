"""Copies the plain files of a directory; follows no link, and replaces a file only on request."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from skerry.infra.atomic import make_private, write_atomic

MAX_BYTES = 256 * 1024 * 1024
"""Limit of one file; a larger file is refused."""


@dataclass(slots=True)
class Copied:
    """Result of a copy."""

    copied: int = 0
    """Number of copied files."""
    bytes: int = 0
    """Size of the copied files."""
    same: int = 0
    """Number of files that the target had with the same content."""
    replaced: list[str] = field(default_factory=list)
    """Relative paths of replaced files."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Relative paths that were not copied, each with the reason."""


def copy_tree(
    origin: Path,
    target: Path,
    *,
    write: bool,
    skip: Callable[[Path], str] = lambda _relative: "",
    gives_way: Callable[[Path, bytes], bool] = lambda _relative, _data: False,
) -> Copied:
    """Copies the files that `target` lacks, each one atomically and with mode 0600.

    Args:
        origin: The directory to copy.
        target: The directory to fill.
        write: False computes the result without writing.
        skip: Returns for a relative path the reason not to copy it; empty to copy it.
        gives_way: Returns for a relative path and the content in `target` True when the copy
            replaces it.

    Raises:
        OSError: a file cannot be read or written.
    """
    result = Copied()
    for folder, folders, files in os.walk(origin, followlinks=False):
        relative = Path(folder).relative_to(origin)
        for name in sorted(folders):
            if (Path(folder) / name).is_symlink():
                result.refused.append((str(relative / name), "it is a link"))
        folders[:] = sorted(name for name in folders if not (Path(folder) / name).is_symlink())
        if write:
            make_private(target / relative)
        for name in sorted(files):
            if reason := skip(relative / name):
                result.refused.append((str(relative / name), reason))
                continue
            _copy_file(Path(folder) / name, target, relative / name, result, gives_way, write=write)
    return result


def _copy_file(
    file: Path,
    target: Path,
    relative: Path,
    result: Copied,
    gives_way: Callable[[Path, bytes], bool],
    *,
    write: bool,
) -> None:
    if file.is_symlink() or not file.is_file():
        result.refused.append((str(relative), "it is a link, or no plain file"))
        return
    if file.stat().st_size > MAX_BYTES:
        result.refused.append((str(relative), f"it is larger than {MAX_BYTES} bytes"))
        return
    data, destination = file.read_bytes(), target / relative
    if destination.is_symlink() or destination.exists():
        present = (
            destination.read_bytes()
            if destination.is_file() and not destination.is_symlink()
            else None
        )
        if present == data:
            result.same += 1
            return
        if present is None or not gives_way(relative, present):
            result.refused.append((str(relative), "another file of this name exists and is kept"))
            return
        result.replaced.append(str(relative))
    if write:
        write_atomic(destination, data)
    result.copied += 1
    result.bytes += len(data)
