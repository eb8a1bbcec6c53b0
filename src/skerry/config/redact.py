"""Removes secrets from a configuration before it is shown.

`public` is for whole configurations: it shows the declared keys of the sections and hides all
others, such as the configuration of a plugin. `redact` is for parts; it decides by key names.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from skerry.config.base import Section, kind_of
from skerry.config.root import Config

REDACTED: Final = "__OPENCLAW_REDACTED__"
"""Placeholder of a secret in `config.get`, which clients recognise."""

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

_SECRET_NAME: Final = re.compile(
    r"(token|password|passwd|passphrase|apikey|accesskey|privatekey|signingkey|secret"
    r"|credentials?|authorization|cookie|bearer)$"
)
_HOLDERS: Final = frozenset({"headers", "env", "vars"})
"""Sections with free names, whose values are usually secrets."""
_REFERENCE: Final = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")
_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
_MAX_ID_CHARS: Final = 512
SHORTEST: Final = 6
"""Minimum characters of a value that is replaced in other values."""
_IN_URL: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[?&]key=)[^&\s#]+|(?<=token=)[^&\s#]+")
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]{0,20}://[^/?#\s]*)(/[^?#\s]*)?(\?[^#\s]*)?(#\S*)?")
_PUBLIC_STEP: Final = re.compile(
    r"(?:v\d{1,2}(?:alpha|beta)?\d?|[a-z]{1,12}(?:-[a-z]{1,12}){0,2})?"
)
"""Part of a URL path that is a word or a version, as in `/api/v1`; keys are longer or have
digits."""
_PRIVATE: Final = frozenset({"args"})
"""Declared keys whose values may contain a secret: the arguments of a program."""
_META: Final = frozenset({"$schema", "$include", "meta", "wizard"})
"""Keys of the file that no section declares and that have no secrets."""


def is_secret(key: str) -> bool:
    """Returns whether the value of a key is a secret: `token`, `apiKey`, `OPENAI_API_KEY`, ..."""
    return _SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", key.lower())) is not None


def is_reference(value: object) -> bool:
    """Returns whether a value is `{source: "env", id: "NAME"}`, a reference without a secret."""
    return (
        isinstance(value, dict)
        and value.keys() <= {"source", "provider", "id"}
        and value.get("source") == "env"
        and value.get("provider", "default") == "default"
        and isinstance(value.get("id"), str)
        and _NAME.fullmatch(value["id"]) is not None
    )


def is_fetched(value: object) -> bool:
    """Returns whether a value is `{source, provider, id}`, a reference to a secret provider."""
    if not isinstance(value, dict) or value.keys() != {"source", "provider", "id"}:
        return False
    source, provider, name = value["source"], value["provider"], value["id"]
    texts = isinstance(provider, str) and isinstance(name, str) and 0 < len(name) <= _MAX_ID_CHARS
    return texts and (source in {"file", "exec"} or (source == "env" and provider != "default"))


def redact(value: JSON) -> JSON:
    """Returns the tree with `REDACTED` in place of every secret, decided by the key names.

    Numbers of such a key are replaced too; true, false and null are kept. In other texts the
    credentials of a URL are replaced (`https://user:password@...`).
    """
    match value:
        case dict():
            return {
                key: _hide(member) if holds_secrets(key) else redact(member)
                for key, member in value.items()
            }
        case list():
            return [redact(element) for element in value]
        case str():
            return redact_text(value)
        case _:
            return value


def redact_config(config: Config, used: Mapping[str, str] | None = None) -> JSON:
    """Returns the checked configuration with its defaults, with the keys of the file, no secrets.

    Values of the variables in `used` are replaced by `${NAME}` everywhere.
    """
    return public(unresolved(config.model_dump(mode="json", by_alias=True), used or {}))


def public(tree: JSON) -> JSON:
    """Returns the tree of a configuration with `REDACTED` in place of values that may be secret.

    The value of a declared key is public, unless its name is that of a secret. The values of all
    other keys are hidden, and so are parts of a URL that may be a key. Booleans and null are kept:
    they are no secrets, and forms need them.
    """
    return _public(tree, (Config,))


def _public(value: JSON, kinds: tuple[Any, ...]) -> JSON:
    match value:
        case dict() if is_reference(value) or is_fetched(value):
            return value
        case dict():
            return {key: _public_at(key, member, kinds) for key, member in value.items()}
        case list():
            items = tuple(kind for outer in kinds for kind in _items(outer))
            return [_public(element, items) for element in value]
        case _ if not kinds or Any in kinds:
            return _hide(value)
        case str():
            return redact_text(value)
        case _:
            return value


def _public_at(key: str, value: JSON, kinds: tuple[Any, ...]) -> JSON:
    if holds_secrets(key):
        return _hide(value)
    if key in _META and Config in kinds:
        return redact(value)
    types = tuple(kind for outer in kinds for kind in _members(outer, key))
    return _public(value, () if key in _PRIVATE else types)


def _members(kind: Any, key: str) -> tuple[Any, ...]:
    """Returns the types of a key in this section or mapping; empty if it is not declared."""
    if isinstance(kind, type) and issubclass(kind, Section):
        return _declared(kind).get(key, ())
    if get_origin(kind) in {dict, Mapping}:
        return tuple(
            arm.for_key(key) if isinstance(arm, type) and issubclass(arm, Section) else arm
            for arm in _arms(get_args(kind)[1])
        )
    return ()


@lru_cache(maxsize=256)
def _declared(section: type[Section]) -> dict[str, tuple[Any, ...]]:
    fields = section.model_fields.items()
    return {field.alias or name: tuple(_arms(kind_of(field))) for name, field in fields}


def _items(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in {tuple, list, frozenset, set}:
        for get_arg in get_args(kind):
            yield from () if get_arg is Ellipsis else _arms(get_arg)


def _arms(annotation: Any) -> Iterator[Any]:
    """Yields the types that an annotation allows; unions and `Annotated` are split."""
    if get_origin(annotation) is Annotated:
        yield from _arms(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, UnionType}:
        for get_arg in get_args(annotation):
            yield from _arms(get_arg)
    else:
        yield annotation


def redact_text(text: str) -> str:
    """Returns a text without the user, query and keys in the path of each URL in it."""
    match = _URL.fullmatch(text)
    if match is None:
        return _IN_URL.sub(REDACTED, text)
    host, path, query, fragment = match.groups(default="")
    steps = [step if _PUBLIC_STEP.fullmatch(step) else REDACTED for step in path.split("/")]
    hidden = [f"{part[0]}{REDACTED}" if len(part) > 1 else part for part in (query, fragment)]
    return _IN_URL.sub(REDACTED, host + "/").removesuffix("/") + "/".join(steps) + "".join(hidden)


def leaves(tree: Any) -> Iterator[Any]:
    """Yields each plain value of a tree; an object that refers to a secret is one value."""
    if isinstance(tree, list) or (isinstance(tree, dict) and not _refers(tree)):
        for member in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(member)
    else:
        yield tree


def with_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the tree with `change` applied to each of its leaves (see `leaves`)."""
    if isinstance(tree, dict) and not _refers(tree):
        return {key: with_leaves(member, change) for key, member in tree.items()}
    if isinstance(tree, list):
        return [with_leaves(element, change) for element in tree]
    return change(tree)


def _refers(value: object) -> bool:
    return is_reference(value) or is_fetched(value)


def unresolved(tree: JSON, used: Mapping[str, str]) -> Any:
    """Returns the tree with `${NAME}` in place of every value of a variable."""

    def change(value: Any) -> Any:
        for name, text in used.items():
            if isinstance(value, str) and (len(text) >= SHORTEST or value == text):
                value = value.replace(text, f"${{{name}}}")
        return value

    return with_leaves(tree, change)


def holds_secrets(key: str) -> bool:
    """Returns whether all values below this key are secrets."""
    return key.lower() in _HOLDERS or is_secret(key)


def _hide(tree: JSON) -> JSON:
    """Returns the tree with `REDACTED` in place of all values except references, booleans, null."""

    def change(value: Any) -> Any:
        if value is None or isinstance(value, bool) or value == "" or _refers(value):
            return value
        is_variable = isinstance(value, str) and _REFERENCE.fullmatch(value)
        return value if is_variable else REDACTED

    hidden: JSON = with_leaves(tree, change)
    return hidden
