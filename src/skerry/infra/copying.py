"""Copies a directory of plain files, never through a link and never over another file."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from skerry.infra.atomic import make_private, write_atomic

MOST_BYTES = 256 * 1024 * 1024
"""Bytes of one file; a larger one is left out."""


@dataclass(slots=True)
class Copied:
    """What became of the files."""

    copied: int = 0
    bytes: int = 0
    same: int = 0
    """They were there already."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Relative paths that were not copied, and why."""


def copy_tree(origin: Path, target: Path, *, write: bool) -> Copied:
    """Copy what `target` lacks, each file whole or not at all (0600); with `write` false only look.

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
            _one(Path(folder) / name, target, relative / name, done, write=write)
    return done


def _one(file: Path, target: Path, relative: Path, done: Copied, *, write: bool) -> None:
    if file.is_symlink() or not file.is_file():
        done.refused.append((str(relative), "it is a link, or no plain file"))
        return
    if file.stat().st_size > MOST_BYTES:
        done.refused.append((str(relative), f"it is larger than {MOST_BYTES} bytes"))
        return
    data, place = file.read_bytes(), target / relative
    if place.is_symlink() or place.exists():
        if place.is_file() and not place.is_symlink() and place.read_bytes() == data:
            done.same += 1
        else:
            done.refused.append((str(relative), "there is another one already, which is kept"))
        return
    if write:
        write_atomic(place, data)
    done.copied += 1
    done.bytes += len(data)
