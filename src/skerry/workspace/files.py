"""Reads files of workspaces for prompts: a turn costs one look at each, not a reading.

Files are opened by descriptor beneath the workspace, so that no link leads out of it.
"""

import logging
import os
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import anyio.to_thread

from skerry.infra.rooted_fs import Beneath, EscapeError
from skerry.model.message import storable
from skerry.policy.gate import doubted, obeyed
from skerry.policy.records import Records
from skerry.workspace.prompt_files import MEMORY, FileText

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 2 * 1024 * 1024
"""Limit on a file of which a part is shown, in bytes."""
DAILY_BYTES: Final = 16 * 1024
"""Bytes of a daily log, from its end (openclaw-behaviour 7.2)."""
KEPT: Final = 256
"""Sets of files that are kept in memory."""
_OTHER_NAMES: Final = {MEMORY: "memory.md"}
"""Names of the same files in older workspaces."""

Mark = tuple[int, ...] | None
"""Mark that changes as soon as a file is changed or replaced; None if there is no file."""


class WorkspaceFiles:
    """The files as they were read last; one that is unchanged is not read again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[
            tuple[str, tuple[str, ...]], tuple[list[Mark], tuple[FileText, ...]]
        ] = OrderedDict()

    async def read(
        self, workspace: Path, names: tuple[str, ...], records: Records | None = None
    ) -> tuple[FileText, ...]:
        """Returns those of the files that exist, in order: the same object while none changed."""
        root = str(workspace)
        marks = [_mark(f"{root}/{name}") for name in names]
        for place, name in enumerate(names):
            if marks[place] is None and name in _OTHER_NAMES:
                marks[place] = _mark(f"{root}/{_OTHER_NAMES[name]}")
        key = root, names
        if records is not None:  # what the owner cleared is read anew
            marks.append((records.cleared,))
        kept = self._kept.get(key)
        if kept is not None and kept[0] == marks:
            return kept[1]
        before = kept[1] if kept is not None else ()
        present = [name for name, mark in zip(names, marks, strict=False) if mark is not None]
        files: tuple[FileText, ...] = ()
        if present:
            files = await anyio.to_thread.run_sync(_read_all, workspace, present, records)
        _warn(workspace, files, before)
        self._kept[key] = marks, files
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return files

    def marks(self, workspace: Path, days: Sequence[str]) -> tuple[Mark, ...]:
        """Returns marks that change when the log of one of the days is changed or replaced."""
        return tuple(_mark(f"{workspace}/memory/{day}.md") for day in days)

    async def daily(
        self, workspace: Path, days: Sequence[str], records: Records | None = None
    ) -> tuple[FileText, ...]:
        """Returns the end of the log of each day that has one; `days` are `YYYY-MM-DD`."""
        names = [f"memory/{day}.md" for day in days]
        present = [name for name in names if _mark(f"{workspace}/{name}") is not None]
        if not present:
            return ()
        return await anyio.to_thread.run_sync(_read_ends, workspace, present, records)


def _mark(path: str) -> Mark:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def read_text(workspace: Path, name: str, records: Records | None = None) -> FileText | None:
    """Returns the file, or why it cannot be read; None where there is none. Blocks.

    With `records` it says whether what it holds counts as the owner's word.
    """
    try:
        with Beneath(workspace).look(name) as (file, opened):
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except EscapeError as error:
        return FileText(name, "", error.reason)
    except OSError as error:
        return FileText(name, "", error.strerror or "it cannot be read")
    if len(data) > MAX_BYTES:
        return FileText(name, "", f"it has more than {MAX_BYTES} bytes")
    doubt = obeyed(opened, records, sha256(data).digest()).reason if records else ""
    return FileText(name, storable(data.decode("utf-8-sig", "replace")).strip(), doubt=doubt)


def _read_all(
    workspace: Path, names: Sequence[str], records: Records | None
) -> tuple[FileText, ...]:
    found = []
    for name in names:
        file = read_text(workspace, name, records)
        if file is None and name in _OTHER_NAMES:
            file = read_text(workspace, _OTHER_NAMES[name], records)
        if file is not None:
            found.append(file)
    return tuple(found)


def _read_ends(
    workspace: Path, names: Sequence[str], records: Records | None
) -> tuple[FileText, ...]:
    found = []
    for name in names:
        try:
            with Beneath(workspace).look(name) as (file, opened):
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - DAILY_BYTES))
                data = file.read(DAILY_BYTES)
        except FileNotFoundError:
            continue
        except EscapeError as error:
            found.append(FileText(name, "", error.reason))
            continue
        except OSError as error:
            found.append(FileText(name, "", error.strerror or "it cannot be read"))
            continue
        text = data.decode("utf-8-sig", "ignore")
        if size > DAILY_BYTES:  # from a whole line on
            text = f"[… the end of {size} bytes …]\n{text.partition(chr(10))[2] or text}"
            # Only the end is read, so the record of the path decides, whatever it holds now.
            taint = records.taint_of(str(opened.path)) if records else frozenset()
            doubt = doubted(opened, taint).reason
        else:  # by what was read, so that a copy of foreign words is told
            doubt = obeyed(opened, records, sha256(data).digest()).reason
        found.append(FileText(name, text, doubt=doubt))
    return tuple(found)


def _warn(workspace: Path, files: Sequence[FileText], before: Sequence[FileText]) -> None:
    for file in files:
        if file.problem and file not in before:
            logger.warning("%s is not shown to the model: %s", workspace / file.name, file.problem)
