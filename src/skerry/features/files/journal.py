"""Copies of files before a tool changed them, so that a change can be undone.

Each change has two private files in the folder `undo` of the state directory: `ID.old`, the old
content, and `ID.json`, the path with the digests of both contents. Both are written before the
change, so that a crash leaves no change without its copy. Copies expire after seven days; the
oldest are removed above 1,000 copies or 64 MB together.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from skerry.infra.atomic import write_atomic
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.origin import Origin
from skerry.policy.file_gate import FileGate
from skerry.ports.tool import ToolContext

logger = logging.getLogger(__name__)

FOLDER: Final = "undo"
DAYS: Final = 7
MAX_CHANGES: Final = 1000
MAX_BYTES: Final = 64 * 1024 * 1024
_DAY_MS: Final = 24 * 3600 * 1000
_RECORD_BYTES: Final = 16_384


class Change(Struct, frozen=True, rename="camel"):
    """One change of one file by a tool."""

    id: str
    """Identifier; begins with the time in milliseconds, so that ids sort by time."""
    at: int
    agent_id: str
    session_key: str
    turn: str
    """Id of the run; empty without a run."""
    tool: str
    workspace: str
    """Absolute path of the workspace."""
    path: str
    """Path within the workspace."""
    before: str | None
    """SHA-256 of the old content; None for a new file."""
    after: str | None
    """SHA-256 of the new content; None for a deleted file."""
    origins: tuple[Origin, ...] | None = None
    """Origins of the text of others in the old content; None if they are not known."""

    @property
    def old_origins(self) -> frozenset[Origin]:
        """Returns the origins to record when the old content is restored."""
        if self.before is None:
            return frozenset()
        return frozenset({Origin.TOOL} if self.origins is None else self.origins)

    @property
    def kind(self) -> str:
        """Returns `add`, `update` or `delete`."""
        return "add" if self.before is None else "delete" if self.after is None else "update"


def digest(data: bytes | None) -> str | None:
    """Returns the SHA-256 of a content; None for a missing file."""
    return None if data is None else sha256(data).hexdigest()


class Journal:
    """The stored changes of an installation."""

    def __init__(self, state_dir: Path, now_ms: Callable[[], int]) -> None:
        self._folder = state_dir / FOLDER
        self._now_ms = now_ms

    @contextmanager
    def saved(
        self,
        context: ToolContext,
        tool: str,
        path: str,
        before: bytes | None,
        after: bytes | None,
    ) -> Iterator[None]:
        """Stores a copy for the block that changes the file; removes it when the block fails.

        The records still have the origins of the old content.
        """
        change = self._keep(context, tool, path, before, after)
        try:
            yield
        except BaseException:
            self._drop(change.id)
            raise

    def _keep(
        self,
        context: ToolContext,
        tool: str,
        path: str,
        before: bytes | None,
        after: bytes | None,
    ) -> Change:
        at = self._now_ms()
        caller = context.caller
        change = Change(
            id=f"{at:013d}-{secrets.token_hex(4)}",
            at=at,
            agent_id=str(caller.key.agent) if caller else "",
            session_key=str(caller.key) if caller else "",
            turn=context.run_id,
            tool=tool,
            workspace=str(context.workspace.root.resolve()),
            path=path,
            before=digest(before),
            after=digest(after),
            origins=_origins(context.workspace, path, before),
        )
        if before is not None:
            write_atomic(self._folder / f"{change.id}.old", before)
        write_atomic(self._folder / f"{change.id}.json", msgspec.json.encode(change))
        self.expire()
        return change

    def changes(self) -> list[Change]:
        """Returns the stored changes, newest first; skips unreadable ones."""
        changes = []
        for file in sorted(self._folder.glob("*.json"), reverse=True)[:MAX_CHANGES]:
            try:
                with file.open("rb") as opened:
                    changes.append(msgspec.json.decode(opened.read(_RECORD_BYTES), type=Change))
            except (OSError, msgspec.MsgspecError):
                logger.warning("%s is not a record of a change and is skipped", file)
        oldest = self._now_ms() - DAYS * _DAY_MS
        return [change for change in changes if change.at >= oldest]

    def expire(self) -> None:
        """Removes the copies beyond the limits of age, number and total size."""
        files = sorted(self._folder.glob("*.json"), reverse=True)
        oldest, total = f"{self._now_ms() - DAYS * _DAY_MS:013d}", 0
        for count, file in enumerate(files):
            with suppress(FileNotFoundError):
                total += file.with_suffix(".old").stat().st_size
            if count >= MAX_CHANGES or total > MAX_BYTES or file.stem < oldest:
                self._drop(file.stem)

    def undo(
        self, changes: Iterable[Change], open_: Callable[[Change], RootedFolder]
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Reverts changes; returns the reverted paths, and the refused paths with reasons.

        A file gets the content before its first selected change, if its present content is that
        after the last one: newer changes by anybody are kept. `open_` returns the workspace of a
        change, whose rules record the origins of its old content.
        """
        undone: list[str] = []
        refused: list[tuple[str, str]] = []
        by_file: dict[tuple[str, str], list[Change]] = {}
        for change in sorted(changes, key=lambda change: change.id):
            by_file.setdefault((change.workspace, change.path), []).append(change)
        for (_, path), chain in reversed(by_file.items()):
            try:
                self._restore(open_(chain[0]), chain)
            except _RefusedError as error:
                refused.append((path, str(error)))
            except (OSError, ValueError) as error:
                refused.append((path, getattr(error, "strerror", None) or str(error)))
            else:
                undone.append(path)
                for change in chain:
                    self._drop(change.id)
        return undone, refused

    def _restore(self, workspace: RootedFolder, chain: list[Change]) -> None:
        first, last = chain[0], chain[-1]
        for earlier, following in pairwise(chain):
            if earlier.after != following.before:
                raise _RefusedError("another program changed it between these changes")
        old = None if first.before is None else (self._folder / f"{first.id}.old").read_bytes()
        if digest(old) != first.before:
            raise _RefusedError("its stored copy is damaged")

        def check(present: bytes | None) -> None:
            if digest(present) != last.after:
                raise _RefusedError("another program changed it since")

        def change(present: bytes | None) -> bytes:
            check(present)
            return old or b""

        max_bytes = MAX_BYTES
        if old is None:
            workspace.remove(first.path, check, max_bytes=max_bytes)
        else:
            workspace.replace(first.path, change, max_bytes=max_bytes, whole=True)

    def _drop(self, identity: str) -> None:
        for suffix in (".json", ".old"):
            with suppress(FileNotFoundError):
                (self._folder / f"{identity}{suffix}").unlink()


def _origins(workspace: RootedFolder, path: str, old: bytes | None) -> tuple[Origin, ...] | None:
    """Returns the recorded origins of a content; None without records."""
    rules = workspace.rules
    if old is None or not isinstance(rules, FileGate) or rules.records is None:
        return None
    target = str(workspace.root.resolve() / path)
    return tuple(sorted(rules.records.of_file(target, len(old), lambda: sha256(old).digest())))


class _RefusedError(Exception):
    """A change cannot be undone; the message is the reason."""
