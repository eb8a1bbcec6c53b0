"""The configuration as clients receive it, and the parsing of the copy that they send back."""

import base64
import hmac
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from skerry.config import source
from skerry.config.expand import Expanded
from skerry.config.include import KEY
from skerry.config.paths import MISSING, KeyPath, show_key_path
from skerry.config.redact import JSON, REDACTED, public, redact_config, redact_text
from skerry.config.root import Config
from skerry.model.errors import ConfigIncludedError, ConfigInvalidError, ConfigIssue

HMAC: Final = "hmac-sha256:v1:"


class ClientView(Struct, frozen=True):
    """The configuration as clients receive it: without secrets, with unresolved references."""

    parsed: JSON
    """Content of the file."""
    resolved: JSON
    """Tree with the included files merged."""
    config: JSON
    """Tree with the included files and the defaults."""


def view_for_clients(read: source.Source, expanded: Expanded, config: Config) -> ClientView:
    """Returns the configuration as clients receive it."""
    return ClientView(
        public(read.parsed),
        public(expanded.merged),
        redact_config(config, expanded.used),
    )


def keyed_hash(key: bytes, text: str) -> str:
    """Returns the hash for protocol 4; it is keyed, so that secrets cannot be guessed from it."""
    digest = hmac.digest(key, text.encode(), "sha256")
    return HMAC + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def keyed_hex(key: bytes, text: str) -> str:
    """Returns the hash for protocol 3: keyed too, in the 64 hex digits that its clients expect."""
    return hmac.digest(key, text.encode(), "sha256").hex()


def is_hash_of(base_hash: str, key: bytes, read: source.Source) -> bool:
    """Returns whether a client's `baseHash`, of either protocol, matches the file."""
    return any(
        hmac.compare_digest(base_hash.encode(), valid.encode())
        for valid in (read.hash, keyed_hash(key, read.raw), keyed_hex(key, read.raw))
    )


def replacement(
    new: Mapping[str, Any], read: source.Source, expanded: Expanded, client_views: ClientView
) -> dict[str, Any]:
    """Returns the new tree of the file for a whole configuration that a client sent.

    The client edited one of the three trees of `ClientView`. A value that is equal to the shown or
    to the stored value changes nothing: hidden secrets, references, included files and defaults
    are kept.

    Raises:
        ConfigInvalidError: the placeholder of a secret is at a key without a secret.
        ConfigIncludedError: a value was removed that an included file sets.
    """
    views = (client_views.parsed, client_views.resolved, client_views.config, expanded.tree)
    tree = _stored_section(new, read.parsed, views)
    for key_path in _removed(new, read.parsed, expanded.merged):
        owner = expanded.includes.owner(key_path)
        raise ConfigIncludedError(show_key_path(key_path), str(owner))
    return tree


def patched(patch: Mapping[str, Any], tree: Mapping[str, Any], *views: Any) -> dict[str, Any]:
    """Returns the tree after a merge patch: null deletes a key; shown values change nothing.

    Source: RFC 7396.
    """
    after = dict(tree)
    for key, value in patch.items():
        sights = [_at(view, key) for view in views]
        old = after.get(key, MISSING)
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = patched(value, old if isinstance(old, dict) else {}, *sights)
        elif old is not MISSING or REDACTED not in json.dumps(value) or value not in sights:
            after[key] = _stored(value, old, *sights)
    return after


def as_object(raw: str, path: str) -> dict[str, Any]:
    """Returns the object that a client sent as JSON5.

    Raises:
        ConfigInvalidError: the text is not a JSON5 object; the issue has line and column.
    """
    try:
        return source.parse(Path(path), raw)
    except ConfigInvalidError as error:
        issues = [ConfigIssue("", issue.message, issue.remedy) for issue in error.issues]
        raise ConfigInvalidError(path, issues) from None


def _stored(new: Any, old: Any, *views: Any) -> Any:
    """Returns `new`, in which every value that equals a shown one is replaced by the stored one."""
    if old is not MISSING and any(new == view for view in views):
        return old
    if isinstance(new, dict):
        return _stored_section(new, old if isinstance(old, dict) else {}, views)
    if isinstance(new, list):
        return _stored_list(new, old, views)
    return _unhidden(new, old)


def _stored_section(
    new: Mapping[str, Any], old: Mapping[str, Any], views: tuple[Any, ...]
) -> dict[str, Any]:
    tree = {}
    for key, value in new.items():
        before = old.get(key, MISSING)
        sights = [_at(view, key) for view in views]
        if before is MISSING and any(value == sight for sight in sights):
            continue  # a default, or from an included file
        stored = _stored(value, before, *sights)
        if stored != {} or before is not MISSING or value == {}:
            tree[key] = stored
    if KEY in old and KEY not in new:
        tree[KEY] = old[KEY]
    order = [key for key in old if key in tree]
    return {key: tree[key] for key in [*order, *(key for key in tree if key not in old)]}


def _removed(new: Any, old: Any, merged: Any, key_path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yields the key paths that an included file sets and that `new` does not have any more."""
    if not (isinstance(new, dict) and isinstance(merged, dict)):
        return
    is_removed_include = isinstance(old, dict) and KEY in old and KEY not in new
    for key, value in merged.items():
        if key in new:
            yield from _removed(new[key], _at(old, key), value, (*key_path, key))
        elif is_removed_include and _at(old, key) is MISSING:
            yield (*key_path, key)


def _at(tree: Any, key: str) -> Any:
    return tree.get(key, MISSING) if isinstance(tree, dict) else MISSING


def _stored_list(new: list[Any], old: Any, views: tuple[Any, ...]) -> list[Any]:
    """Returns the list; items with an id are compared with the stored item with that id."""
    olds = old if isinstance(old, list) else []
    return [
        _stored(
            element,
            _partner(element, number, new, olds),
            *(_partner(element, number, new, elements) for elements in views),
        )
        for number, element in enumerate(new)
    ]


def _partner(element: Any, number: int, new: list[Any], list_elements: Any) -> Any:
    if not isinstance(list_elements, list):
        return MISSING
    if isinstance(element, dict) and "id" in element:
        same = (
            candidate
            for candidate in list_elements
            if isinstance(candidate, dict) and candidate.get("id") == element["id"]
        )
        return next(same, MISSING)
    return list_elements[number] if len(list_elements) == len(new) else MISSING


def _unhidden(new: Any, old: Any) -> Any:
    """Returns the stored value in place of a placeholder.

    Raises:
        ConfigInvalidError: there is no stored value.
    """
    match new:
        case str() if REDACTED in new:
            if old is not MISSING and _shows(new, old):
                return old
            message = f"{REDACTED} is the placeholder of a secret, and no secret is set here."
            issue = ConfigIssue("", message, "Write the value itself.")
            raise ConfigInvalidError("the request", [issue])
        case list():
            return [
                _unhidden(element, _partner(element, number, new, old))
                for number, element in enumerate(new)
            ]
        case dict():
            inner = old if isinstance(old, dict) else {}
            return {key: _unhidden(value, inner.get(key, MISSING)) for key, value in new.items()}
        case _:
            return new


def _shows(text: str, old: Any) -> bool:
    """Returns whether `text` is the form in which clients see the stored value."""
    return text == REDACTED or (isinstance(old, str) and redact_text(old) == text)
