"""Reads `openclaw.plugin.json`, the description of a plugin that is known without running it.

Both shapes are read: that of OpenClaw (`id`, `kind`, `configSchema`) and that of seed 003 (`name`,
`capabilities`, `slots`, `config`, `requires`).
"""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from skerry.model.errors import PluginError

FILE: Final = "openclaw.plugin.json"
MAX_BYTES: Final = 262_144
_SLOTS: Final = ("memory", "sandbox", "browser")


class Manifest(Struct, frozen=True):
    """Content of a manifest."""

    id: str = ""
    """Id in the shape of OpenClaw; empty in the other."""
    name: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    homepage: str = ""
    slots: tuple[str, ...] = ()
    """Exclusive slots that it claims."""
    cli: tuple[str, ...] = ()
    """Commands of the command line, beside the id."""
    config_schema: dict[str, Any] = field(default_factory=dict)
    """JSON Schema of `plugins.entries.<id>.config`; empty where it has none."""
    requires: dict[str, Any] = field(default_factory=dict)


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest in the folder of a plugin; an empty one where it has none.

    Raises:
        PluginError: the file cannot be read, is too large, or is not a JSON object.
    """
    file = path / FILE
    if not path.is_dir() or not file.is_file():
        return Manifest()
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise PluginError(f"{file} has more than {MAX_BYTES} bytes.", "Shorten it.")
        tree = msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise PluginError(f"{file} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise PluginError(f"{file} is not a JSON object: {error}.", "Correct it.") from error
    return _of(tree)


def _of(tree: dict[str, Any]) -> Manifest:
    config = _mapping(tree, "config")
    slots = _mapping(tree, "slots")
    claimed = [slot for slot in _SLOTS if slots.get(slot) is True or tree.get("kind") == slot]
    return Manifest(
        id=_text(tree, "id"),
        name=_text(tree, "name"),
        version=_text(tree, "version"),
        description=_text(tree, "description"),
        author=_text(tree, "author"),
        homepage=_text(tree, "homepage"),
        slots=tuple(claimed),
        cli=tuple(name for name in _list(tree, "cli") if isinstance(name, str)),
        config_schema=_mapping(tree, "configSchema") or _mapping(config, "schema"),
        requires=_mapping(tree, "requires"),
    )


def _text(tree: dict[str, Any], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def _mapping(tree: dict[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def _list(tree: dict[str, Any], key: str) -> list[Any]:
    value = tree.get(key)
    return value if isinstance(value, list) else []
