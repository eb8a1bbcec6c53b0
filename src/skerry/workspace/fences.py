"""Judges files of a workspace as the prompt does: which are fenced, why, and who wrote them."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.origin import Origin
from skerry.policy.file_gate import FileGate, doubted
from skerry.policy.file_kinds import FileKind, kind_of
from skerry.policy.file_records import FileRecords
from skerry.workspace.prompt_files import BOOT, MAX_BYTES, ORDER

_NAMES: Final = (*ORDER, "memory.md", BOOT)
_UNRECORDED: Final = "its writer is unknown"
_READ: Final = frozenset({FileKind.INSTRUCTIONS, FileKind.MEMORY})
"""Kinds that a prompt, a boot or a heartbeat reads without a tool call."""


class JudgedFile(Struct, frozen=True):
    """The present state of a file, with its record."""

    name: str
    """Path in the workspace."""
    path: str
    """Canonical and absolute, as in its record."""
    kind: FileKind
    data: bytes
    digest: bytes
    taint: frozenset[Origin]
    doubt: str
    """Reason why it does not count as the owner's text; empty if it does."""
    is_foreign: bool


def look(workspace: Path, name: str, gate: FileGate, records: FileRecords) -> JudgedFile:
    """Reads and judges a file of the workspace. Blocks.

    Raises:
        EscapeError: the file is closed, is outside the workspace, or is too large to be shown.
        OSError: the file does not exist or cannot be read.
    """
    with RootedFolder(workspace, gate).look(name) as (file, opened):
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise EscapeError(name, f"it has more than {MAX_BYTES} bytes")
    digest, path = sha256(data).digest(), str(opened.path)
    kind, record = kind_of(opened, gate.workspaces), records.of(path)
    if kind in _READ:
        taint = records.judged(path, digest, len(data))
        doubt = doubted(opened, taint).reason
    else:  # a record of such a file is made only when a tool writes it
        taint = record.taint if record else frozenset()
        same = record is not None and record.digest == digest
        doubt = doubted(opened, taint).reason or ("" if same else _UNRECORDED)
    return JudgedFile(name, path, kind, data, digest, taint, doubt, opened.is_foreign)


def fenced(workspace: Path, gate: FileGate, records: FileRecords) -> Iterator[JudgedFile]:
    """Yields the files that are read without a tool call and are fenced in the prompt. Blocks."""
    root = workspace.resolve()
    marked = (Path(record.path) for record in records.tainted())
    inside = (str(path.relative_to(root)) for path in marked if path.is_relative_to(root))
    for name in dict.fromkeys((*_NAMES, *inside)):
        try:
            file = look(workspace, name, gate, records)
        except (EscapeError, OSError):
            continue  # it is not shown at all
        if file.doubt and file.kind in _READ:
            yield file
