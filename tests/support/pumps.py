"""Every regular expression of the source, and texts that make a bad one slow.

A pattern that tries again at each character what it has just tried needs time with the square of
the text, during which the interpreter runs nothing else. Such texts are long runs of one
character or word that occurs in the pattern ("pumps").
"""

import ast
import json
import pkgutil
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined] # what `re` itself parses with
from typing import Any

SRC = Path(__file__).resolve().parents[2] / "src"
USES = ("search", "match", "fullmatch")
_AS_SEARCH = frozenset({"search", "finditer", "findall", "sub", "subn", "split"})
_FEWEST = 21
_LIMIT_FEWEST_S = 0.02
"""An exponential pattern needs seconds for so few characters."""
_FEW = 700
"""Characters of the first look at a text."""
_SLOWEST = 3
"""The texts that are measured at greater lengths."""
_ENOUGH_S = 0.003
"""Seconds of CPU that can be measured."""
_LONGEST = 96_000
"""Characters from which on a text that needs less is no trouble."""
_TIMES = 8
"""Times as long is the text that is compared."""
_TRIES = 3
"""A neighbour that takes the caches slows one measurement, but not each."""
_GROWTH = 20
"""From one to the other a linear pattern takes 8 times as long, a quadratic one 64 times."""
_GENERAL = (
    " ",
    "\n",
    "\t",
    ".",
    "a",
    "A",
    "0",
    "-",
    "*",
    "`",
    "<",
    '"',
    "'",
    "[",
    "(",
    "_",
    ":",
    "/",
)
_PAIRS = ("a ", "a.", ". ", " \n", "0.", "\u3042")


@dataclass(frozen=True)
class Pattern:
    """A compiled expression: where it is, and the ways in which the source applies it."""

    file: str
    line: int
    text: str
    flags: int
    is_bytes: bool
    uses: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def compiled(self) -> re.Pattern[Any]:
        """Compile it again."""
        text = self.text.encode("latin-1") if self.is_bytes else self.text
        return re.compile(text, self.flags & ~(0 if not self.is_bytes else re.UNICODE))


def collect() -> list[Pattern]:
    """Lists the patterns of `src`, by importing all of it in a process of its own."""
    command = [sys.executable, "-m", "tests.support.pumps"]
    root = SRC.parent
    out = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    compiled = [Pattern(**{**row, "uses": tuple(row["uses"])}) for row in json.loads(out)]
    return sorted([*compiled, *_inline()], key=str)


def _inline() -> Iterator[Pattern]:
    """Yields the literal patterns that are passed to `re.search` and similar functions."""
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=use),
                    args=[ast.Constant(value=str(text)), *_],
                ) if use != "compile":
                    uses = (use,) if use in USES else ("search",)
                    name = path.relative_to(SRC).as_posix()
                    yield Pattern(name, node.lineno, text, 0, is_bytes=False, uses=uses)


def slow_text(pattern: Pattern) -> str | None:
    """Searches for a text on which the pattern is not linear; describes the first that is found."""
    compiled = pattern.compiled()
    for use in pattern.uses:
        texts = list(_texts(compiled, ("\0",) if use == "search" else ("", "\0")))
        for text in texts:
            if _seconds(compiled, use, text, _FEWEST) > _LIMIT_FEWEST_S:
                return _described(use, text)
        timed = [(_seconds(compiled, use, text, _FEW), text) for text in texts]
        timed.sort(key=lambda one: -one[0])
        for _, text in timed[:_SLOWEST]:
            if _grows(compiled, use, text):
                return _described(use, text)
    return None


def _grows(compiled: re.Pattern[Any], use: str, text: tuple[str, str, str]) -> bool:
    """Compares a text that needs some milliseconds with one that is 8 times as long."""
    length = _FEW
    while (short := min(_seconds(compiled, use, text, length) for _ in range(2))) < _ENOUGH_S:
        length *= 2
        if length > _LONGEST:
            return False
    most = _GROWTH * short
    return all(_seconds(compiled, use, text, length * _TIMES) > most for _ in range(_TRIES))


def _described(use: str, text: tuple[str, str, str]) -> str:
    before, unit, after = text
    return f"{use} on {before!r} + {unit!r} * n + {after!r}"


def _seconds(
    compiled: re.Pattern[Any], use: str, parts: tuple[str, str, str], length: int
) -> float:
    before, unit, after = parts
    text: str | bytes = before + unit * (length // len(unit)) + after
    if isinstance(compiled.pattern, bytes):
        text = str(text).encode()
    begin = time.thread_time()
    if use == "search":
        for _ in compiled.finditer(text):
            pass
    else:
        getattr(compiled, use)(text)
    return time.thread_time() - begin


def _texts(compiled: re.Pattern[Any], ends: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    literals, characters = _samples(compiled)
    all_words = sorted(literals, key=lambda one: (-len(one), one))[:60]
    some = all_words[:8]
    few = sorted(characters)[:24]
    units = dict.fromkeys((*_GENERAL, *_PAIRS, *few, *all_words))
    units |= dict.fromkeys(one + two for one in some for two in (" ", "\n", "a", "-", "."))
    units |= dict.fromkeys(two + word for word in all_words for two in ("-", " "))
    units |= dict.fromkeys(one + two for one in some[:4] for two in some[:4])
    for unit in units:
        for before in ("", *some[:2]):
            for after in ends:
                yield before, unit, after


def _samples(compiled: re.Pattern[Any]) -> tuple[set[str], set[str]]:
    """Collects the words and the characters that the pattern asks for."""
    raw = compiled.pattern
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    literals: set[str] = set()
    characters: set[str] = set()
    flags = compiled.flags if isinstance(raw, str) else compiled.flags & ~re.UNICODE
    _walk(_parser.parse(text, flags), literals, characters)
    return literals, characters


def _walk(parsed: Iterable[Any], literals: set[str], characters: set[str]) -> None:
    word = ""
    for kind, value in parsed:
        if kind is _constants.LITERAL:
            word += chr(value)
            characters.add(chr(value))
            continue
        if word:
            literals.add(word)
        word = ""
        if kind is _constants.IN:
            characters.update(_in_class(value))
        for inner in _inside(kind, value):
            _walk(inner, literals, characters)
    if word:
        literals.add(word)


def _in_class(members: Iterable[Any]) -> Iterator[str]:
    examples = {
        _constants.CATEGORY_DIGIT: "0",
        _constants.CATEGORY_SPACE: " ",
        _constants.CATEGORY_WORD: "a",
    }
    for kind, value in members:
        if kind is _constants.LITERAL:
            yield chr(value)
        elif kind is _constants.RANGE:
            yield chr(value[0])
        elif kind is _constants.CATEGORY:
            yield examples.get(value, "!")


def _inside(kind: Any, value: Any) -> list[Any]:
    if kind in {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}:
        return [value[2]]
    if kind is _constants.SUBPATTERN:
        return [value[3]]
    if kind is _constants.ATOMIC_GROUP:
        return [value]
    if kind in {_constants.ASSERT, _constants.ASSERT_NOT}:
        return [value[1]]
    if kind is _constants.BRANCH:
        return list(value[1])
    return []


def _uses() -> dict[tuple[str, str], set[str]]:
    """Maps the file and the name of a constant to the methods that are called on it.

    The file is empty for a name that others may import.
    """
    uses: dict[tuple[str, str], set[str]] = {}
    for path in SRC.rglob("*.py"):
        file = path.relative_to(SRC).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=use) if name.isupper():
                    if use in USES or use in _AS_SEARCH:
                        key = (file if name.startswith("_") else "", name)
                        uses.setdefault(key, set()).add(use if use in USES else "search")
    return uses


def _compiled_on_import() -> list[dict[str, Any]]:
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    compiling = re.compile
    uses = _uses()
    lines: dict[str, list[str]] = {}

    def recording(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        made: re.Pattern[Any] = compiling(pattern, flags)
        caller = sys._getframe(1)
        path = Path(caller.f_code.co_filename)
        if path.is_relative_to(SRC):
            where = path.relative_to(SRC).as_posix()
            source = lines.setdefault(where, path.read_text(encoding="utf-8").splitlines())
            name = source[caller.f_lineno - 1].partition(":")[0].partition("=")[0].strip()
            raw = made.pattern
            rows[where, caller.f_lineno] = {
                "file": where,
                "line": caller.f_lineno,
                "text": raw.decode("latin-1") if isinstance(raw, bytes) else raw,
                "flags": made.flags,
                "is_bytes": isinstance(raw, bytes),
                "uses": sorted(uses.get((where if name.startswith("_") else "", name), USES)),
            }
        return made

    re.compile = recording
    for package in (import_module("skerry"), import_module("skerry_recall")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith("skerry.testing") and "__main__" not in module.name:
                import_module(module.name)
    return list(rows.values())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_compiled_on_import()))
