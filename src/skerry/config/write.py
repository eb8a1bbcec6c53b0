"""Changes the configuration file; comments, order and style of the file are kept."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from skerry import __version__
from skerry.config import backup, source
from skerry.config.agents import SHORT_FORMS
from skerry.config.check import check
from skerry.config.expand import Expanded, expand
from skerry.config.late import edits
from skerry.config.paths import (
    MISSING,
    KeyPath,
    changes,
    lookup,
    parse_key_path,
    replaced,
    show_key_path,
)
from skerry.config.redact import JSON, REDACTED, redact
from skerry.config.references import refers
from skerry.infra.atomic import exclusive, write_atomic
from skerry.infra.clock import Clock, SystemClock, iso
from skerry.model.errors import (
    ConfigError,
    ConfigIncludedError,
    ConfigInvalidError,
    ConfigIssue,
    ConfigRewriteError,
)

META: Final = "meta"
Edit = Callable[[source.Source, Expanded], dict[str, Any]]
"""Returns the new tree of a file, with unresolved references and includes."""


@dataclass(frozen=True, slots=True)
class ConfigAuthor:
    """Author of a write, and the environment that resolves the references of the file."""

    by: str = "command line"
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    state_dir: Path | None = None
    """State directory; None is the directory of the file."""
    clock: Clock = field(default_factory=SystemClock)
    guard: Callable[[source.Source, Expanded, Expanded, list[KeyPath]], None] | None = None
    """Raises an error if this author may not change these key paths."""
    dry: bool = False
    """Makes all checks, but does not write."""
    strict: bool = False
    """Refuses a change of a key that is unknown to this version."""


class ConfigWriteResult(Struct, frozen=True):
    """Result of a write, with the changed key paths; if there are none, nothing was written."""

    source: source.Source
    changed: tuple[KeyPath, ...]
    unknown_keys: tuple[ConfigIssue, ...] = ()
    """Changed keys that are unknown to this version."""


def set_values(
    path: Path,
    values: Mapping[str, JSON],
    *,
    keep: bool = False,
    author: ConfigAuthor | None = None,
) -> ConfigWriteResult:
    """Sets the values at the key paths in `values`; None removes the key. See `rewrite`.

    Args:
        path: The file.
        values: Such as `{"models.providers.openai.apiKey": "..."}`. Lists are replaced whole.
        keep: Does not change a value that is set already.
        author: The author of the write.

    """

    def edit(before: source.Source, expanded: Expanded) -> dict[str, Any]:
        return with_values(before.parsed, expanded, values, path=path, keep=keep)

    def verify(old: Expanded, new: Expanded) -> None:
        if not keep:
            must_mean(intended(old, values), old, new)

    return rewrite(path, edit, author or ConfigAuthor(), verify=verify, remedy=by_hand(values))


def with_values(
    tree: dict[str, Any],
    expanded: Expanded,
    values: Mapping[str, JSON],
    *,
    path: Path,
    keep: bool = False,
) -> dict[str, Any]:
    """Returns the tree with the values; a value that a reference or include has already is kept.

    Raises:
        ConfigInvalidError: a parent of a key path is no section.
    """
    for dotted, value in values.items():
        key_path = parse_key_path(dotted)
        new_value = MISSING if value is None else value
        old_value = lookup(expanded.merged, key_path)
        if (keep and old_value is not MISSING) or _is_set(expanded, key_path, new_value):
            continue
        try:
            tree = replaced(_long_forms(tree, key_path), key_path, new_value)
        except ConfigError as error:
            issue = ConfigIssue(dotted, str(error), error.remedy)
            raise ConfigInvalidError(str(path), [issue]) from None
    return tree


def rewrite(
    path: Path,
    edit: Edit,
    author: ConfigAuthor,
    *,
    verify: Callable[[Expanded, Expanded], None] | None = None,
    remedy: str = "Make the change in an editor.",
) -> ConfigWriteResult:
    """Writes the tree that `edit` returns for the file.

    The order of keys is kept. In a file with comments or JSON5 syntax only the text of the changed
    values changes. The result is checked before it is written. The file gets mode 0600, and the
    five earlier files are kept as `<name>.bak`, `.bak.1`, ... A lock excludes other writers. The
    file may be missing, but its directory must exist. A link is followed.

    Raises:
        ConfigInvalidError: the file, or the result, is not valid; nothing changed.
        ConfigIncludedError: the change must be made in an included file.
        ConfigRewriteError: the change cannot be made in a file with comments or JSON5 syntax; the
            remedy has the text to edit by hand.
        ConfigError: the file cannot be written.
    """
    path = path.resolve()

    def text(before: source.Source, old: Expanded) -> str:
        tree = edit(before, old)
        if tree == before.parsed and before.exists:
            return before.raw
        stamped = _stamped(tree, author.clock.now_ms())
        if is_plain(before.raw):
            return _text(stamped) + "\n"
        changed = edits.edited(before.raw, before.parsed, stamped)
        if changed is None:
            _checked(source.Source(path, "", tree), old, author)
            raise ConfigRewriteError(str(path), remedy)
        return changed

    return _replace(path, text, author, verify=verify)


def write_text(
    path: Path, raw: str, author: ConfigAuthor, *, base: str | None = None
) -> ConfigWriteResult:
    """Writes the text unchanged, with its comments, if it passes the check. See `rewrite`.

    Args:
        path: The file.
        raw: The text, in JSON5.
        author: The author of the write.
        base: Hash of the file from which the text was made; a changed file is not overwritten.

    """

    def text(before: source.Source, _old: Expanded) -> str:
        if base is not None and before.hash != base:
            failure = ConfigError(f"{path} was changed meanwhile.")
            failure.remedy = "Read it again, and repeat the change."
            raise failure
        return raw

    return _replace(path.resolve(), text, author, broken=True)


def _replace(
    path: Path,
    make: Callable[[source.Source, Expanded], str],
    author: ConfigAuthor,
    *,
    verify: Callable[[Expanded, Expanded], None] | None = None,
    broken: bool = False,
) -> ConfigWriteResult:
    try:
        with exclusive(path.parent):
            before, old = _present(path, author, broken=broken)
            raw = make(before, old)
            if raw == before.raw and before.exists:
                if verify is not None:
                    verify(old, old)
                return ConfigWriteResult(before, ())
            after = source.Source(path, raw, source.parse(path, raw), 0o600)
            data = _encoded(path, raw)
            new, unknown_keys = _checked(after, old, author)
            changed = [change for change in changes(old.merged, new.merged) if change[0] != META]
            unknown_keys = _touched(unknown_keys, changed)
            if author.strict and unknown_keys:
                raise ConfigInvalidError(str(path), list(unknown_keys))
            if verify is not None:
                verify(old, new)
            if author.guard is not None:
                author.guard(before, old, new, changed)
            if author.dry:
                return ConfigWriteResult(after, tuple(changed), unknown_keys)
            _put(before, path, data)
    except OSError as error:
        failure = ConfigError(f"{path} cannot be written: {error.strerror}.")
        failure.remedy = "Check its owner, its permissions and the space on the disk."
        raise failure from error
    key_paths = [show_key_path(key_path) for key_path in changed]
    entry = backup.AuditEntry(author.clock.now_ms(), author.by, before, after, key_paths)
    backup.note(author.state_dir or path.parent, entry)
    return ConfigWriteResult(after, tuple(changed), unknown_keys)


def _put(before: source.Source, path: Path, data: bytes) -> None:
    if before.exists:
        backup.keep_before(before)
    write_atomic(path, data)


def _present(path: Path, author: ConfigAuthor, *, broken: bool) -> tuple[source.Source, Expanded]:
    """Returns the file and its expansion; with `broken` also a file that is not valid."""
    try:
        before = source.read(path)
        return before, expand(before, author.environ)
    except ConfigInvalidError:
        if not broken:
            raise
    data, mode = source.read_bytes(path)
    before = source.Source(path, data.decode(errors="surrogateescape"), {}, mode)
    return before, expand(source.Source(path), author.environ)


def _checked(
    after: source.Source, old: Expanded, author: ConfigAuthor
) -> tuple[Expanded, tuple[ConfigIssue, ...]]:
    """Checks the new file and returns its expansion; references unresolved before may remain."""
    path = after.path
    new = expand(after, author.environ)
    _, warnings = check(new.tree, state_dir=author.state_dir or path.parent, path=path)
    issues = [issue for issue in new.issues if issue not in old.issues]
    if issues:
        raise ConfigInvalidError(str(path), issues)
    return new, warnings


def _encoded(path: Path, raw: str) -> bytes:
    """Returns the UTF-8 bytes of the text; refuses a text that could not be read again."""
    try:
        data = raw.encode()
    except UnicodeEncodeError as error:
        message = f"character {error.start} cannot be encoded as UTF-8."
        raise ConfigInvalidError(
            str(path), [ConfigIssue("", message, "Remove the character.")]
        ) from None
    if len(data) > source.MAX_BYTES:
        message = f"it would be larger than {source.MAX_BYTES} bytes."
        raise ConfigInvalidError(str(path), [ConfigIssue("", message, "Shorten it.")])
    return data


def _touched(
    unknown_keys: Sequence[ConfigIssue], changed: Sequence[KeyPath]
) -> tuple[ConfigIssue, ...]:
    """Returns the unknown keys at or above the changed key paths."""
    changed_paths = [f"{show_key_path(key_path)}." for key_path in changed]
    return tuple(
        dict.fromkeys(
            issue
            for issue in unknown_keys
            if any(at.startswith(f"{issue.path}.") for at in changed_paths)
        )
    )


def intended(old: Expanded, values: Mapping[str, JSON]) -> dict[str, Any]:
    """Returns the whole expanded tree that `values` should produce, whichever file has the keys."""
    tree: Any = old.merged
    for dotted, value in values.items():
        key_path = parse_key_path(dotted)
        tree = replaced(_long_forms(tree, key_path), key_path, MISSING if value is None else value)
    return dict(tree)


def must_mean(meaning: Mapping[str, Any], old: Expanded, new: Expanded) -> None:
    """Refuses a change that an included file prevents.

    Raises:
        ConfigIncludedError: it has the file to edit.
    """
    for change in changes(dict(meaning), new.merged):
        owner = old.includes.owner(change)
        if owner is not None and change[0] != META:
            raise ConfigIncludedError(show_key_path(change), str(owner))


def _is_set(expanded: Expanded, key_path: KeyPath, value: object) -> bool:
    """Returns whether the file has a reference that resolves to the value; it is then kept."""
    stored_value = lookup(expanded.merged, key_path)
    return refers(stored_value) and lookup(expanded.tree, key_path) == value


def _long_forms(tree: dict[str, Any], key_path: KeyPath) -> dict[str, Any]:
    """Returns the tree with the parents of `key_path` that are in short form as objects."""
    for depth in range(1, len(key_path)):
        short = SHORT_FORMS.get(show_key_path(key_path[:depth]))
        text = lookup(tree, key_path[:depth])
        if short and isinstance(text, str):
            tree = replaced(tree, key_path[:depth], {short: text})
    return tree


def _stamped(tree: dict[str, Any], at_ms: int) -> dict[str, Any]:
    meta = tree.get(META)
    fields = meta if isinstance(meta, dict) else {}
    stamp = {"lastTouchedVersion": __version__, "lastTouchedAt": iso(at_ms)}
    return {**tree, META: {**fields, **stamp}}


def is_plain(raw: str) -> bool:
    """Returns whether the text is JSON without anything that a rewrite would lose."""
    try:
        json.loads(raw.strip() or "{}", object_pairs_hook=_without_twins)
    except ValueError:
        return False
    return True


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key occurs twice")
    return tree


def by_hand(values: Mapping[str, JSON]) -> str:
    """Returns an instruction to set the values in an editor, without their secrets.

    An element of a list is shown as a list with one element.
    """
    tree: Any = {}
    for dotted, value in values.items():
        if value is not None:
            key_path = tuple(
                0 if isinstance(part, int) else part for part in parse_key_path(dotted)
            )
            tree = replaced(tree, key_path, value)
    added = _text(redact(tree), indent=None).replace(REDACTED, "<your secret>")
    removed = ", ".join(dotted for dotted, value in values.items() if value is None)
    todo = (f"Add this yourself: {added}" if tree else "", f"Remove {removed}." if removed else "")
    return " ".join(filter(None, todo))


def _text(tree: JSON, *, indent: int | None = 2) -> str:
    return json.dumps(tree, indent=indent, ensure_ascii=False)
