"""Changes values in the configuration file without losing what a person wrote there."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skerry.config import source
from skerry.config.agents import SHORT_FORMS
from skerry.config.check import check
from skerry.config.redact import JSON, REDACTED, redact
from skerry.infra.atomic import exclusive, write_atomic
from skerry.model.errors import ConfigError, ConfigInvalidError, ConfigIssue, ConfigRewriteError


def set_values(path: Path, changes: Mapping[str, JSON], *, keep: bool = False) -> None:
    """Set the values at the dotted paths in `changes`; None removes the key.

    The order of keys stays, the result is checked before it is written, the file gets mode 0600,
    and the copy before it stays beside it as `<name>.bak`. Two writers wait for each other.

    Args:
        path: The file; it may be absent, its directory not. A link is followed.
        changes: Such as `{"models.providers.openai.apiKey": "..."}`. Lists are set whole.
        keep: Leave a value that is already there.

    Raises:
        ConfigInvalidError: the file, or what it would become, breaks a rule; nothing changed.
        ConfigRewriteError: the file has comments or JSON5 syntax; it names what to add by hand.
        ConfigError: the file cannot be written.
    """
    path = path.resolve()
    try:
        with exclusive(path.parent):
            before = source.read(path)
            after = _merged(before, changes, keep=keep)
            if after == before.parsed and before.exists:
                return
            check(after, state_dir=path.parent, path=path)
            if not _is_plain(before.raw):
                raise ConfigRewriteError(str(path), _addition(changes))
            if before.exists:
                write_atomic(path.with_name(path.name + ".bak"), before.raw.encode())
            write_atomic(path, _text(after).encode() + b"\n")
    except OSError as error:
        failure = ConfigError(f"{path} cannot be written: {error.strerror}.")
        failure.remedy = "Check its owner, its permissions and the space on the disk."
        raise failure from error


def _merged(before: source.Source, changes: Mapping[str, JSON], *, keep: bool) -> dict[str, Any]:
    tree: dict[str, Any] = copy.deepcopy(before.parsed)
    for dotted, value in changes.items():
        *sections, last = dotted.split(".")
        place = tree
        for depth, name in enumerate(sections, 1):
            short = SHORT_FORMS.get(".".join(sections[:depth]))
            if short and isinstance(place.get(name), str):
                place[name] = {short: place[name]}
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                issue = ConfigIssue(dotted, f"{name} is no section.", "Correct the file.")
                raise ConfigInvalidError(str(before.path), [issue])
        if value is None:
            place.pop(last, None)
        elif not (keep and last in place):
            place[last] = value
    return tree


def _is_plain(raw: str) -> bool:
    """Return whether the text is JSON that loses nothing when it is written anew."""
    try:
        json.loads(raw or "{}", object_pairs_hook=_without_twins)
    except ValueError:
        return False
    return True


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key stands twice")
    return tree


def _addition(changes: Mapping[str, JSON]) -> str:
    tree: dict[str, Any] = {}
    for dotted, value in changes.items():
        *sections, last = dotted.split(".")
        place = tree
        for name in sections:
            place = place.setdefault(name, {})
        place[last] = value
    return _text(redact(tree), indent=None).replace(REDACTED, "<your secret>")


def _text(tree: JSON, *, indent: int | None = 2) -> str:
    return json.dumps(tree, indent=indent, ensure_ascii=False)
