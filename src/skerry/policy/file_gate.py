"""Applies the policy to each file that is opened in a workspace, and records each written file.

Implements `infra.rooted_fs.FileRules`, so that every file opened by `RootedFolder` is checked.
"""

import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from skerry.infra.rooted_fs import Opened
from skerry.model.origin import Origin
from skerry.model.provenance import origins
from skerry.policy.access import Verb
from skerry.policy.decide import OWNER, Actor, Decision, Request, decide
from skerry.policy.file_kinds import FileKind, FileSubject, kind_of
from skerry.policy.file_records import FileRecord, FileRecords
from skerry.policy.taint import foreign

GATEWAY: Final = "gateway"
CLOCK_NS: Final = 20_000_000
"""Nanoseconds by which the times of files may lag behind the clock."""
MAX_CHANGED_FILES: Final = 50_000
"""Maximum number of files that are examined after a command."""


class Closed(Protocol):
    """Paths that no tool may read or write, for any actor."""

    def reading(self, path: Path) -> str | None:
        """Returns the reason why the file may not be read, or None."""
        ...

    def writing(self, path: Path) -> str | None:
        """Returns the reason why the file may not be written, or None."""
        ...


class FileGate(Struct, frozen=True):
    """The policy on files for one run, or for the gateway itself."""

    closed: Closed
    workspaces: frozenset[Path]
    """Absolute paths without links."""
    actor: Actor = OWNER
    records: FileRecords | None = None
    writer: str = GATEWAY
    """Key of the conversation, for the records of written files."""
    read_origins: frozenset[Origin] = frozenset()
    """Origins of the text that the gateway itself may write here."""

    def reading(self, opened: Opened) -> str | None:
        """Returns the reason why the file may not be read, or None."""
        return self._refusal(Verb.READ, opened, self.closed.reading(opened.path))

    def writing(self, opened: Opened) -> str | None:
        """Returns the reason why the file may not be written, or None."""
        return self._refusal(Verb.WRITE, opened, self.closed.writing(opened.path))

    def wrote(self, opened: Opened, data: bytes, kept: bytes | None) -> None:
        """Records the new content of the file, and the origins of the text that the writer read.

        The taint of the old content, which may be that of the file it copies, is kept with it;
        `kept` is None when the file is replaced.
        """
        if self.records is None:
            return
        path = str(opened.path)
        # Content that a person approved counts as written by that person.
        taint = frozenset() if self.actor.is_approved else foreign(self.actor.taint)
        taint |= self.read_origins
        if not self.actor.is_owner:
            taint |= {self.actor.origin}
        if kept is not None:
            taint |= self.records.of_file(path, len(kept), lambda: sha256(kept).digest())
        self.records.note(FileRecord(path, sha256(data).digest(), len(data), self.writer, taint))

    def for_gateway(self, read_origins: frozenset[Origin]) -> Self:
        """Returns the gate for the gateway itself, which may write text of these origins."""
        return replace(self, actor=OWNER, read_origins=read_origins)

    def carrying(self, origin: Origin) -> Self:
        """Returns the gate for writing text of a file whose text has this origin.

        Also a call that a person approved records the origin: the person saw the name of the file.
        """
        origins = foreign({origin})
        actor = replace(self.actor, taint=self.actor.taint | origins)
        return replace(self, actor=actor, read_origins=self.read_origins | origins)

    def origin(self, opened: Opened, file: BinaryIO, text: str) -> Origin:
        """Returns the origin of the text of an opened file, of which `text` is shown.

        The text is foreign if a tainted run or a command with network access wrote the file or the
        file that it is a copy of, or if it belongs to another user. A file that prompts read is the
        owner's if a prompt would accept it as the owner's instruction.
        """
        kind = kind_of(opened, self.workspaces)
        if kind is FileKind.UNVERIFIED:
            return Origin.TOOL
        if kind in {FileKind.PLAIN, FileKind.LOADED}:
            if self.records is None:  # its writer is unknown
                return Origin.TOOL
            taint = self.records.of_file(str(opened.path), opened.size or 0, lambda: _digest(file))
            return _origin_of(taint) if taint or opened.is_foreign else Origin.LOCAL
        if not self.obeyed(opened, file).allowed:
            path = str(opened.path)
            return _origin_of(self.records.taint_of(path) if self.records else frozenset())
        return Origin.MEMORY if origins(text) <= {Origin.OWNER} else Origin.TOOL

    def may_have_foreign_text(self, *text_origins: Origin) -> bool:
        """Returns whether a command may return or write foreign text; if not, no file is examined.

        Args:
            text_origins: Origins of the command's text, besides those of its run and of the files.

        """
        is_known = self.records is not None and not self.records.has_tainted
        return not is_known or bool(foreign((*self.actor.taint, *text_origins)))

    def output_origin(self, root: Path) -> Origin:
        """Returns the origin of the output of a command without network that may read `root`.

        It is foreign in a tainted run, or if files below `root` have a record of foreign text.
        """
        taint = foreign(self.actor.taint)
        if self.records is None:  # the writers of the files are unknown
            return Origin.TOOL
        taint |= self.records.present_origins(str(root.resolve()))
        return _origin_of(taint) if taint else Origin.LOCAL

    def note_changes(self, root: Path, since_ns: int, text_origin: Origin) -> None:
        """Records the files below `root` that a command with foreign text changed.

        Examines at most `MAX_CHANGED_FILES` files; with more, the whole directory is recorded as
        tainted.

        Args:
            root: The workspace of the command.
            since_ns: Begin of the command, in nanoseconds since 1970.
            text_origin: Origin of the text that the command may have read, besides that of its run.

        """
        taint = foreign((*self.actor.taint, text_origin))
        if self.records is None or not taint:
            return
        file_count, top = 0, root.resolve()
        for folder, folders, names in os.walk(top):
            folders[:] = [name for name in folders if name != ".git"]
            for name in names:
                file_count += 1
                path = Path(folder, name)
                with suppress(OSError):
                    status = path.lstat()
                    if not stat.S_ISREG(status.st_mode) or status.st_ctime_ns < since_ns:
                        continue
                    with path.open("rb") as file:
                        digest = _digest(file)
                    self.records.note(
                        FileRecord(str(path), digest, status.st_size, self.writer, taint)
                    )
            if file_count > MAX_CHANGED_FILES:
                self.records.note(FileRecord(f"{top}/", b"", 0, self.writer, taint))
                return

    def subject(self, opened: Opened) -> FileSubject:
        """Returns the file in the form of the policy."""
        return FileSubject(kind_of(opened, self.workspaces), str(opened.path))

    def obeyed(self, opened: Opened, file: BinaryIO) -> Decision:
        """Returns the decision whether the content counts as the owner's instruction."""
        return obeyed(opened, self.records, _digest(file))

    def _refusal(self, verb: Verb, opened: Opened, closed: str | None) -> str | None:
        file = FileSubject(kind_of(opened, self.workspaces), str(opened.path), closed or "")
        decision = decide(Request(self.actor, verb, file=file))
        return None if decision.allowed else decision.reason


def obeyed(opened: Opened, records: FileRecords | None, digest: bytes) -> Decision:
    """Returns the decision whether a file for a prompt, a boot or a hook is the owner's word."""
    taint = frozenset[Origin]()
    if records is not None:
        taint = records.judged(str(opened.path), digest, opened.size or 0)
    return doubted(opened, taint)


def doubted(opened: Opened, taint: frozenset[Origin]) -> Decision:
    """Returns the decision whether a file with this taint counts as the owner's word."""
    kind, path = FileKind.INSTRUCTIONS, str(opened.path)
    file = FileSubject(kind, path, taint=taint, is_foreign=opened.is_foreign)
    return decide(Request(OWNER, Verb.OBEY, file=file))


def _digest(file: BinaryIO) -> bytes:
    file.seek(0)
    digest = sha256()
    while chunk := file.read(65_536):
        digest.update(chunk)
    return digest.digest()


def _origin_of(taint: frozenset[Origin]) -> Origin:
    return Origin.WEB if Origin.WEB in taint else Origin.TOOL
