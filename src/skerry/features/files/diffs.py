"""Unified diffs of changed files, for clients (pure).

Equal lines at the start and end of both versions are skipped before the comparison, so that a small
change of a long file is cheap. Above the limits, lines are only counted.
"""

from collections.abc import Sequence
from difflib import unified_diff
from typing import Any, Final

from msgspec import Struct

MAX_LINES: Final = 2000
"""Maximum number of changed lines of each version that are compared."""
MAX_CHARS: Final = 65_536
_CONTEXT: Final = 3
_LINE: Final = 500
"""Maximum length of a line in a diff, in characters."""


class FileDiff(Struct, frozen=True):
    """Difference between two versions of a file."""

    path: str
    kind: str
    """`add`, `update`, `delete` or `move`."""
    diff: str
    added: int
    removed: int
    first_line: int
    """Number of the first changed line, from 1."""
    truncated: bool = False

    def details(self) -> dict[str, Any]:
        """Returns the entry of the file in the details of a result."""
        return {
            "path": self.path,
            "kind": self.kind,
            "added": self.added,
            "removed": self.removed,
            "firstChangedLine": self.first_line,
            "truncated": self.truncated,
        }


def diff(path: str, old: bytes | None, new: bytes | None, *, kind: str = "") -> FileDiff:
    """Returns the difference; None means that the file does not exist."""
    before, after = _lines(old), _lines(new)
    kind = kind or ("add" if old is None else "delete" if new is None else "update")
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    changed, replacement = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(changed), len(replacement)) > MAX_LINES:
        text = f"--- a/{path}\n+++ b/{path}\n@@ {len(changed)} lines became {len(replacement)} @@\n"
        return FileDiff(path, kind, text, len(replacement), len(changed), start + 1, truncated=True)
    above, below = max(start - _CONTEXT, 0), _CONTEXT
    first = before[above : len(before) - end + below]
    second = after[above : len(after) - end + below]
    lines = [
        _with_offset(line, above)
        for line in unified_diff(first, second, f"a/{path}", f"b/{path}", n=_CONTEXT, lineterm="")
    ]
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    text = "".join(line + "\n" for line in lines)
    cut = len(text) > MAX_CHARS
    return FileDiff(path, kind, text[:MAX_CHARS], added, removed, start + 1, truncated=cut)


def details(diffs: Sequence[FileDiff]) -> dict[str, Any]:
    """Returns the details of a result: the diff of all files, and an entry for each."""
    text = "".join(file_diff.diff for file_diff in diffs)
    return {"diff": text[: 2 * MAX_CHARS], "files": [file_diff.details() for file_diff in diffs]}


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").splitlines()


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns the number of equal lines at the start."""
    count = 0
    for left_line, right_line in zip(first, second, strict=False):
        if left_line != right_line:
            break
        count += 1
    return count


def _with_offset(line: str, above: int) -> str:
    """Returns a line of the diff; adds the skipped lines to the numbers of a hunk."""
    if not line.startswith("@@ ") or above == 0:
        return line[:_LINE]
    parts = line.split(" ")
    for index in (1, 2):
        sign, _, rest = parts[index][0], "", parts[index][1:]
        number, comma, count = rest.partition(",")
        parts[index] = f"{sign}{int(number) + above}{comma}{count}"
    return " ".join(parts)
