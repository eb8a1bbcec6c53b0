"""Checks the tree of a configuration file, and reports all errors together."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from skerry.config.agents import AgentConfig, AgentDefaults
from skerry.config.base import OpenSection, Section, kind_of
from skerry.config.root import Config
from skerry.config.skill_settings import SkillEntryConfig
from skerry.config.tools import ToolsScope
from skerry.infra.spelling import spelt_like
from skerry.model.errors import ConfigInvalidError, ConfigIssue

SILENT: Final = frozenset({"$schema", "meta", "wizard"})
"""Keys of the file that do not affect the gateway."""

UNSUPPORTED: Final[Mapping[type, frozenset[str]]] = {
    Config: frozenset({"approvals"}),
    ToolsScope: frozenset({"exec"}),
    AgentDefaults: frozenset({"sandbox", "tools"}),
    AgentConfig: frozenset({"sandbox"}),
}
"""Unsupported keys that restrict access: to ignore them would give access."""

NO_VARIABLES: Final = (
    "Skills bring no environment variables: let the program read its key from its own login or from"
    " a file."
)
UNREAD: Final[Mapping[type, Mapping[str, str]]] = {
    SkillEntryConfig: dict.fromkeys(("apiKey", "env"), NO_VARIABLES),
}
"""Keys of OpenClaw without an effect here, each with the remedy that its warning has."""

UNKNOWN_KEY: Final = "unknown key."
NO_EFFECT: Final = "unknown to this version; it has no effect."
LACKING: Final = "not supported by this version."
_Tree = Mapping[str, Any]


@cache
def _validator() -> TypeAdapter[Config]:
    return TypeAdapter(Config)


def drop_validator() -> None:
    """Frees the validator of the whole file, 2 MB; the next check makes it in 20 ms of CPU."""
    _validator.cache_clear()


def check(parsed: _Tree, *, state_dir: Path, path: Path) -> tuple[Config, tuple[ConfigIssue, ...]]:
    """Returns the configuration in the tree of the file at `path`, and the warnings.

    An unknown key is an error where a typo could give access: in a section that is no
    `OpenSection`, or similar to a name in `UNSUPPORTED`. Elsewhere it is kept with a warning
    (decisions 6, "unknown config keys").

    Raises:
        ConfigInvalidError: the tree is not valid; it has all issues, without values of the file.
    """
    findings = list(_section(Config, parsed, ""))
    errors = [issue for fatal, issue in findings if fatal]
    paths = {"state_dir": state_dir, "path": path}
    foreign = {*paths, "stateDir", "included"}
    tree = {key: value for key, value in parsed.items() if key not in foreign}
    config = None
    try:
        config = _validator().validate_python({**tree, **paths})
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        errors += [_issue(detail) for detail in details if detail["type"] != "extra_forbidden"]
    if errors or config is None:
        raise ConfigInvalidError(str(path), errors)
    return config, tuple(issue for _, issue in findings)


def _section(section: type[Section], tree: _Tree, path: str) -> Iterator[tuple[bool, ConfigIssue]]:
    fields = _fields(section)
    for key, value in tree.items():
        key_path = f"{path}.{key}" if path else key
        if key in fields:
            yield from _value(kind_of(fields[key]), value, key_path)
        elif section.free_names is not None and section.free_names.fullmatch(key):
            continue
        elif path or key not in SILENT:
            yield _unknown_key(section, key, key_path)


def _value(kind: Any, value: object, key_path: str) -> Iterator[tuple[bool, ConfigIssue]]:
    """Yields the unknown keys in a value whose declared type is `kind`."""
    arguments = [get_arg for get_arg in get_args(kind) if get_arg is not NoneType]
    if isinstance(value, list) and arguments:
        for index, element in enumerate(value):
            yield from _value(arguments[0], element, f"{key_path}[{index}]")
    elif isinstance(value, dict) and get_origin(kind) in {dict, Mapping}:
        for key, element in value.items():
            yield from _value(_member(arguments[1], key), element, f"{key_path}.{key}")
    elif isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Section):
        yield from _section(kind, value, key_path)
    elif arguments:
        yield from _value(arguments[0], value, key_path)


def _member(kind: Any, key: object) -> Any:
    """Returns the class of the section with this key in a mapping."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind.for_key(str(key)) if isinstance(kind, type) and issubclass(kind, Section) else kind


def _unknown_key(section: type[Section], key: str, key_path: str) -> tuple[bool, ConfigIssue]:
    guarded = frozenset[str]().union(*(UNSUPPORTED.get(kind, ()) for kind in section.__mro__))
    if key in guarded:
        return True, ConfigIssue(key_path, LACKING, "Remove it.")
    aliases = [field.alias or name for name, field in _fields(section).items()]
    near = spelt_like(key, [*aliases, *guarded], cutoff=0.75)
    hint = f"Did you mean {near[0]!r}?" if near else ""
    if near and near[0] in guarded:
        hint += " This version does not support it; remove it."
    strict = not issubclass(section, OpenSection)
    if strict or (near and (near[0] in guarded or _is_strict(section, near[0]))):
        return True, ConfigIssue(key_path, UNKNOWN_KEY, hint or "Remove it.")
    return False, ConfigIssue(key_path, NO_EFFECT, UNREAD.get(section, {}).get(key, hint))


def _is_strict(section: type[Section], key: str) -> bool:
    kind = kind_of(_fields(section)[key])
    return (
        isinstance(kind, type) and issubclass(kind, Section) and not issubclass(kind, OpenSection)
    )


def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    """Returns the fields that the section accepts in the file, by each of their spellings."""
    fields = {
        name: field for name, field in section.model_fields.items() if field.exclude is not True
    }
    return fields | {field.alias: field for field in fields.values() if field.alias}


_PLAIN: Final = {
    "Input should": "it should",
    "Field required": "it is missing",
    "a valid tuple": "a list",
    "a valid dictionary": "an object",
}
"""Words of pydantic's messages, with the words of this program."""


def _issue(detail: ErrorDetails) -> ConfigIssue:
    path = ""
    for part in detail["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    text = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    for phrase, plain in _PLAIN.items():
        text = text.replace(phrase, plain)
    remedy = "Add it." if detail["type"] == "missing" else "Correct it, or remove it."
    return ConfigIssue(path, text.rstrip(".") + ".", remedy)
