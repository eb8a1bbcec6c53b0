"""Requirements of a manifest: programs, variables, and settings that fit its schema."""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from skerry.model.errors import PluginError
from skerry.plugins.manifest import Manifest

_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": Mapping,
    "array": (list, tuple),
    "null": type(None),
}
MAX_FAULTS: Final = 20


def check_requires(manifest: Manifest, environ: Mapping[str, str]) -> None:
    """Checks the requirements of the manifest: programs, variables, the version of Python.

    `openclaw` and `node` are versions of other programs and are ignored.

    Raises:
        PluginError: a requirement is unmet; the message lists all unmet ones.
    """
    needs = manifest.requires
    unmet = [f"the program {name}" for name in _names(needs, "bins") if shutil.which(name) is None]
    unmet += [f"the variable {name}" for name in _names(needs, "env") if not environ.get(name)]
    python = needs.get("python")
    if isinstance(python, str) and not _fits(python):
        unmet.append(f"Python {python}")
    if unmet:
        raise PluginError(f"It needs {', '.join(unmet)}.", "Install or set it, then restart.")


def check_settings(plugin: str, manifest: Manifest, config: Mapping[str, Any]) -> None:
    """Checks the settings of a plugin against the JSON Schema of its manifest.

    Types, required and unknown keys, enumerations, limits and patterns are checked.

    Raises:
        PluginError: the settings are invalid; the message has the path and fault of each key.
    """
    messages = [
        f"{'.'.join(('config', *path))}: {text}"
        for path, text in faults(manifest.config_schema, config, ())
    ][:MAX_FAULTS]
    if messages:
        key = f"plugins.entries.{plugin}.config"
        raise PluginError(f"{'; '.join(messages)}.", f"Correct {key}.")


def _names(needs: Mapping[str, Any], key: str) -> list[str]:
    value = needs.get(key, ())
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _fits(requirement: str) -> bool:
    """Returns True when this Python has at least the version in a text such as `>=3.12`."""
    match = re.fullmatch(r"\s*>=\s*(\d+)\.(\d+)(?:\.\d+)?\s*", requirement)
    return match is not None and sys.version_info[:2] >= (int(match[1]), int(match[2]))


def faults(
    schema: Mapping[str, Any], value: object, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the path and the fault of each value that does not fit a JSON Schema."""
    kind = schema.get("type")
    if isinstance(kind, str) and not _is_kind(kind, value):
        yield path, f"must be {'an' if kind[0] in 'aeio' else 'a'} {kind}"
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield path, f"must be one of {', '.join(map(str, choices))}"
    match value:
        case Mapping():
            yield from _members(schema, value, path)
        case list():
            for number, item in enumerate(value):
                yield from faults(schema.get("items", {}), item, (*path, str(number)))
        case _:
            yield from ((path, text) for text in _plain_faults(schema, value))


def _plain_faults(schema: Mapping[str, Any], value: object) -> Iterator[str]:
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and re.search(pattern, value) is None:
        yield f"must match {pattern}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, greatest = schema.get("minimum"), schema.get("maximum")
        if (least is not None and value < least) or (greatest is not None and value > greatest):
            yield f"must be between {least} and {greatest}"


def _members(
    schema: Mapping[str, Any], value: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield (*path, name), "is required"
    for name, member in value.items():
        if name in properties:
            yield from faults(properties[name], member, (*path, name))
        elif schema.get("additionalProperties") is False:
            yield (*path, name), "is unknown"


def _is_kind(kind: str, value: object) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _KINDS.get(kind, object))
