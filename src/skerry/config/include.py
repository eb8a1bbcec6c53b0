"""Merges the files of `$include` into the tree; files outside the root's directory are refused."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skerry.config import source
from skerry.config.paths import KeyPath, show_key_path
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.errors import ConfigInvalidError, ConfigIssue

KEY: Final = "$include"
MAX_DEPTH: Final = 10
MAX_FILES: Final = 100
"""Maximum number of included files; a file that is included twice counts twice."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of all included files together, in bytes."""
_DROPPED: Final = frozenset({"__proto__", "prototype", "constructor"})


@dataclass(slots=True)
class Includes:
    """Included files in the order of reading, each with the key path at which it was merged."""

    files: list[tuple[KeyPath, Path]] = field(default_factory=list)
    bytes: int = 0

    def owner(self, key_path: KeyPath) -> Path | None:
        """Returns the last file that was merged at or above `key_path`; None without one."""
        owners = [file for prefix, file in self.files if key_path[: len(prefix)] == prefix]
        return owners[-1] if owners else None


def merged(base: Any, over: Any) -> Any:
    """Returns `over` merged over `base`: objects merge, lists are joined, else `over` is taken.

    Source: openclaw-behaviour 1.2.
    """
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    tree = {key: value for key, value in base.items() if key not in _DROPPED}
    for key, value in over.items():
        if key not in _DROPPED:
            tree[key] = merged(tree[key], value) if key in tree else value
    return tree


def included(read: source.Source) -> tuple[dict[str, Any], Includes]:
    """Returns the tree of the root file with every `$include` replaced by its files.

    Raises:
        ConfigInvalidError: a file cannot be included; the issue has key path, reason and remedy.
    """
    includes = Includes()
    chain = (_File(read.path, read.path.resolve(), read.raw),)
    tree = _value(read.parsed, (), chain, includes)
    if not isinstance(tree, dict):
        raise chain[0].invalid((KEY,), "the result must be an object.", "Include an object.")
    return tree, includes


@dataclass(frozen=True, slots=True)
class _File:
    """A file in the chain of includes from the root file to the present one."""

    path: Path
    real: Path
    raw: str = field(repr=False)

    def invalid(self, key_path: KeyPath, message: str, remedy: str) -> ConfigInvalidError:
        return ConfigInvalidError(
            str(self.path), [ConfigIssue(show_key_path(key_path), message, remedy)]
        )

    def line(self, name: str) -> str:
        """Returns the file name, with the line of the first `name` in it if there is one."""
        at = max(self.raw.find(quoted) for quoted in (json.dumps(name), f"'{name}'"))
        return f"{self.path.name}" + (f" line {self.raw.count(chr(10), 0, at) + 1}" * (at >= 0))


_Chain = tuple[_File, ...]


def _value(value: Any, key_path: KeyPath, chain: _Chain, includes: Includes) -> Any:
    if isinstance(value, list):
        return [
            _value(element, (*key_path, number), chain, includes)
            for number, element in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    siblings = {
        key: _value(member, (*key_path, key), chain, includes)
        for key, member in value.items()
        if key != KEY
    }
    if KEY not in value:
        return siblings
    content = _content(value[KEY], key_path, chain, includes)
    if not siblings:
        return content
    if not isinstance(content, dict):
        message = "its file is not an object, so it cannot be merged with the other keys here."
        raise chain[-1].invalid((*key_path, KEY), message, "Remove the other keys.")
    return merged(content, siblings)


def _content(names: object, key_path: KeyPath, chain: _Chain, includes: Includes) -> Any:
    include_path = (*key_path, KEY)
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or not listed or not all(isinstance(n, str) for n in listed):
        raise chain[-1].invalid(
            include_path, "it must be a file, or a list of files.", "Name a file."
        )
    content: Any = None
    for number, name in enumerate(listed):
        file = _open(name, include_path, chain, includes)
        includes.files.append((key_path, file.path))
        parsed = _parsed(file, include_path)
        tree = _value(parsed, key_path, (*chain, file), includes)
        content = merged(content, tree) if number else tree
    return content


def _open(name: str, include_path: KeyPath, chain: _Chain, includes: Includes) -> _File:
    """Reads one file below the directory of the root file; links out of it are refused."""
    by, root = chain[-1], chain[0]
    subject = f"{by.line(name)}: {name!r}"
    top = root.real.parent
    path = Path(os.path.normpath(by.real.parent / name))
    inside = f"Move the file into {top}."
    if "\0" in name or not path.is_relative_to(top) or path == top:
        raise by.invalid(
            include_path, f"{subject} is outside the directory of the configuration.", inside
        )
    real = path.resolve()
    if not real.is_relative_to(top):
        raise by.invalid(include_path, f"{subject} is a link out of the directory.", inside)
    _check_limits(real, subject, include_path, chain, includes)
    try:
        with RootedFolder(top).open(str(real.relative_to(top))) as opened:
            data = opened.read(source.MAX_BYTES + 1)
    except EscapeError as error:
        raise by.invalid(include_path, f"{subject} is refused: {error.reason}.", inside) from error
    except OSError as error:
        remedy = "Correct the name, or create the file."
        raise by.invalid(
            include_path, f"{subject} cannot be read: {error.strerror}.", remedy
        ) from error
    includes.bytes += len(data)
    if len(data) > source.MAX_BYTES or includes.bytes > MAX_BYTES:
        raise by.invalid(
            include_path, f"{subject} is too large.", f"Include at most {MAX_BYTES} bytes in all."
        )
    return _File(path, real, source.text(path, data))


def _check_limits(
    real: Path, subject: str, include_path: KeyPath, chain: Sequence[_File], includes: Includes
) -> None:
    by = chain[-1]
    names = [file.real for file in chain]
    if real in names:
        circle = " -> ".join(file.name for file in [*names[names.index(real) :], real])
        raise by.invalid(
            include_path, f"{subject} includes itself: {circle}.", "Remove one of the includes."
        )
    if len(chain) > MAX_DEPTH:
        remedy = f"Nest at most {MAX_DEPTH} files."
        raise by.invalid(include_path, f"{subject} is nested too deep.", remedy)
    if len(includes.files) >= MAX_FILES:
        raise by.invalid(
            include_path, f"{subject} is one file too many.", f"Include at most {MAX_FILES}."
        )


def _parsed(file: _File, include_path: KeyPath) -> Any:
    """Returns the tree of the file; a syntax error has line and column."""
    try:
        return source.parse_any(file.path, file.raw)
    except ConfigInvalidError as error:
        (issue,) = error.issues
        message = f"{file.path}: {issue.message}"
        raise file.invalid(include_path, message, issue.remedy) from None
