"""Compares commands of this machine with the patterns of the allowlist."""

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from skerry.features.exec.programs import Resolved, is_on_path, resolve
from skerry.policy.command_patterns import Pattern


def quoted(argv: Sequence[str]) -> str:
    """Returns the pattern that matches exactly these words."""
    return " ".join(map(shlex.quote, argv))


def matches(
    pattern: Pattern, argv: Sequence[str], program: Resolved, search_path: Sequence[str]
) -> bool:
    """Returns true when the command matches the pattern.

    Args:
        pattern: The pattern.
        argv: The words of the command.
        program: The program of its first word.
        search_path: Folders in which the first word of the pattern is looked up.
    """
    if pattern.is_path:
        return _is_under_path(pattern.program, program)
    allowed = resolve(pattern.program, search_path)
    if allowed is None or (allowed.name, allowed.real) != (program.name, program.real):
        return False
    if not is_on_path(program, search_path) and program.path != allowed.path:
        return False
    words, rest = argv[1 : 1 + len(pattern.words)], argv[1 + len(pattern.words) :]
    if len(words) < len(pattern.words) or (rest and not pattern.takes_rest):
        return False
    return not any(word.startswith("-") for word in rest) and all(
        form.fullmatch(word) for form, word in zip(pattern.words, words, strict=True)
    )


def _is_under_path(pattern: str, program: Resolved) -> bool:
    if not re.search(r"[*?]", pattern):
        allowed = resolve(pattern)
        return allowed is not None and (allowed.name, allowed.real) == (program.name, program.real)
    return _path_form(pattern).fullmatch(program.real) is not None


@lru_cache(maxsize=256)
def _path_form(pattern: str) -> re.Pattern[str]:
    forms = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(forms.get(part) or re.escape(part) for part in parts), re.DOTALL)
