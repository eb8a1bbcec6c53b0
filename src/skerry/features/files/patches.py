"""Parses patches of the tool `apply_patch`, and applies one to the text of a file (pure).

The form is that of OpenClaw and Codex: `*** Begin Patch`, then for each file `*** Add File`,
`*** Delete File` or `*** Update File` with an optional `*** Move to`, hunks that begin with `@@`,
and `*** End Patch`. A hunk may name a line above it after `@@`, and has lines that begin with a
space, `-` or `+`. Lines are compared exactly, then without trailing spaces, then without spaces at
both ends.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

MAX_CHARS: Final = 1024 * 1024
MAX_FILES: Final = 100
MAX_HUNKS: Final = 1000
_MAX_STEPS: Final = 2_000_000
"""Maximum number of line comparisons for one file, which limits the duration."""
_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "
_EOF: Final = "*** End of File"


class PatchError(Exception):
    """The patch is malformed or does not fit; the message contains the remedy for the model."""


class Hunk(Struct):
    """A change within a file."""

    above: list[str]
    """Lines named after `@@`, in file order; the change is below them."""
    old: list[str]
    new: list[str]
    at_end: bool = False
    """True when the change is at the end of the file."""


class FilePatch(Struct):
    """Change of one file by a patch."""

    kind: str
    """`add`, `delete` or `update`."""
    path: str
    move_to: str = ""
    lines: list[str] = []
    """Content of a new file."""
    hunks: list[Hunk] = []


def parse(text: str) -> list[FilePatch]:
    """Returns the files of a patch, in order.

    Raises:
        PatchError: the text is malformed.
    """
    if len(text) > MAX_CHARS:
        raise PatchError(f"The patch has more than {MAX_CHARS} characters. Send several.")
    lines = text.replace("\r\n", "\n").strip("\n ").split("\n")
    if lines and lines[0].startswith("<<"):
        lines = lines[1:-1]  # a model may write the patch as a here-document
    if not lines or lines[0].strip() != _BEGIN:
        raise PatchError(f"The first line must be '{_BEGIN}'.")
    if lines[-1].strip() != _END:
        raise PatchError(f"The last line must be '{_END}'.")
    return _Parser(lines[1:-1]).files()


class _Parser:
    """Parses the lines between the first and the last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> list[FilePatch]:
        files: list[FilePatch] = []
        while (line := self._peek()) is not None:
            if not line.strip():
                self._at += 1
                continue
            files.append(self._file(line))
            if len(files) > MAX_FILES:
                raise PatchError(f"The patch has more than {MAX_FILES} files. Send several.")
        if not files:
            raise PatchError(f"The patch changes nothing: it has no '{_UPDATE}path'.")
        paths = [path for file in files for path in (file.path, file.move_to) if path]
        if twice := next((path for path in paths if paths.count(path) > 1), None):
            raise PatchError(f"{twice} occurs twice. Put all hunks of a file below one header.")
        return files

    def _peek(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _file(self, line: str) -> FilePatch:
        for kind, head in (("add", _ADD), ("delete", _DELETE), ("update", _UPDATE)):
            if line.startswith(head):
                self._at += 1
                file = FilePatch(kind, _path(line, head))
                if kind == "add":
                    file.lines = list(self._added(file.path))
                elif kind == "update":
                    self._update(file)
                return file
        raise PatchError(
            f"Line {self._at + 2} of the patch is not a header: {line[:80]!r}. A file begins with"
            f" '{_ADD}path', '{_UPDATE}path' or '{_DELETE}path'."
        )

    def _added(self, path: str) -> Iterator[str]:
        while (line := self._peek()) is not None and not line.startswith("*** "):
            if not line.startswith("+"):
                raise PatchError(f"Each line of the new file {path} must begin with '+'.")
            self._at += 1
            yield line[1:]

    def _update(self, file: FilePatch) -> None:
        line = self._peek()
        if line is not None and line.startswith(_MOVE):
            file.move_to = _path(line, _MOVE)
            self._at += 1
        while (line := self._peek()) is not None and (line == _EOF or not line.startswith("*** ")):
            file.hunks.append(self._hunk(file.path))
            if len(file.hunks) > MAX_HUNKS:
                raise PatchError(f"{file.path} has more than {MAX_HUNKS} hunks. Send several.")
        if not file.hunks and not file.move_to:
            raise PatchError(f"The update of {file.path} has no hunk.")

    def _hunk(self, path: str) -> Hunk:
        hunk = Hunk([], [], [])
        while (line := self._peek()) is not None and line.startswith("@@"):
            if above := line[2:].removeprefix(" ").removesuffix(" @@"):
                hunk.above.append(above)
            self._at += 1
        while (line := self._peek()) is not None and not line.startswith(("@@", "*** ")):
            self._line(hunk, line, path)
            self._at += 1
        if self._peek() == _EOF:
            hunk.at_end = True
            self._at += 1
        if not hunk.old and not hunk.new:
            raise PatchError(f"A hunk of {path} has no lines.")
        return hunk

    def _line(self, hunk: Hunk, line: str, path: str) -> None:
        sign, rest = line[:1] or " ", line[1:]
        if sign not in " +-":
            raise PatchError(
                f"A line of a hunk of {path} begins with {sign!r}: {line[:80]!r}. Begin it with"
                " ' ' (kept), '-' (removed) or '+' (added)."
            )
        if sign != "+":
            hunk.old.append(rest)
        if sign != "-":
            hunk.new.append(rest)


def _path(line: str, head: str) -> str:
    path = line.removeprefix(head).strip()
    if not path:
        raise PatchError(f"'{head.strip()}' names no file.")
    return path


def applied(text: str, file: FilePatch) -> str:
    """Returns the text of a file after its hunks. Keeps the line endings.

    Raises:
        PatchError: lines of a hunk are not in the file, in this order.
    """
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    plain = text.replace("\r\n", "\n") if windows else text
    lines = plain.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    search = _Search(lines, file.path)
    result: list[str] = []
    next_line = 0
    for hunk in file.hunks:
        start = search.position(hunk)
        result += [*lines[next_line:start], *hunk.new]
        next_line = start + len(hunk.old)
        search.cursor = next_line
    result += lines[next_line:]
    new = "".join(line + "\n" for line in result)
    if next_line < len(lines) and not plain.endswith("\n"):
        new = new.removesuffix("\n")  # the last line keeps its missing newline
    return new.replace("\n", "\r\n") if windows else new


_EXACT: Final[tuple[Callable[[str], str], ...]] = (str, str.rstrip, str.strip)


class _Search:
    """Finds the lines of hunks in file order."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        self._lines = lines
        self._path = path
        self._steps = 0
        self.cursor = 0

    def position(self, hunk: Hunk) -> int:
        """Returns the index of the first line of a hunk."""
        start = self.cursor
        for above in hunk.above:
            at = self._find([above], start)
            if at is None:
                raise PatchError(
                    f"{self._path} has no line {above[:80]!r} below line {start}. Read it again."
                )
            start = at + 1
        if not hunk.old:
            return len(self._lines) if hunk.at_end or not hunk.above else start
        if hunk.at_end:
            last = len(self._lines) - len(hunk.old)
            if last >= start and self._find(hunk.old, last) == last:
                return last
        at = self._find(hunk.old, start)
        if at is None:
            raise PatchError(
                f"{self._path} has no such lines below line {start}: {hunk.old[0][:80]!r} and"
                f" {len(hunk.old) - 1} more. Read it again, and copy the lines exactly."
            )
        return at

    def _find(self, expected: Sequence[str], start: int) -> int | None:
        for same in _EXACT:
            form = [same(line) for line in expected]
            for at in range(start, len(self._lines) - len(form) + 1):
                if self._fits(form, at, same):
                    return at
        return None

    def _fits(self, form: Sequence[str], at: int, same: Callable[[str], str]) -> bool:
        for offset, line in enumerate(form):
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise PatchError(f"The patch of {self._path} takes too long. Send smaller hunks.")
            if same(self._lines[at + offset]) != line:
                return False
        return True
