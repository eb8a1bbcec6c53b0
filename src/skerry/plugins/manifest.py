"""Reads `openclaw.plugin.json`, the description of a plugin, without running the plugin.

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
CAPABILITIES: Final = (
    *("tools", "gateway", "http", "commands", "channels"),
    *("providers", "services", "skills", "hooks", "cli"),
)
"""Kinds of parts that `capabilities` may list."""
_NO_CODE: Final = frozenset({"skills"})
"""Capabilities whose paths are directories."""


class PluginProcess(Struct, frozen=True):
    """Program of a plugin that runs as a process."""

    command: tuple[str, ...]
    """Program and arguments; its working directory is the folder of the plugin."""
    env: tuple[str, ...] = ()
    """Names of additional variables that it gets from the gateway's environment."""


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
    """Slots that the plugin claims."""
    cli: tuple[str, ...] = ()
    """Commands of the command line in addition to the id."""
    capabilities: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths of files by the kind of parts that they register; empty when none are listed."""
    contract_tools: tuple[str, ...] | None = None
    """Names of all its tools; None when they are not listed."""
    config_schema: dict[str, Any] = field(default_factory=dict)
    """JSON Schema of `plugins.entries.<id>.config`; empty for none."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Default settings."""
    requires: dict[str, Any] = field(default_factory=dict)
    skills: tuple[str, ...] = ()
    """Folders with skills, relative to the folder of the manifest."""
    process: PluginProcess | None = None
    """None for a plugin whose code runs inside the gateway."""

    @property
    def code_files(self) -> list[tuple[str, str]]:
        """Returns pairs of capability and file of code, each file once."""
        files: dict[str, str] = {}
        for kind, paths in self.capabilities.items():
            for path in paths:
                if kind not in _NO_CODE and path:
                    files.setdefault(path, kind)
        return [(kind, path) for path, kind in files.items()]


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest in the folder of a plugin; an empty one without a file.

    Raises:
        PluginError: the file cannot be read, is too large, or is not a JSON object.
    """
    file = path / FILE
    if not path.is_dir() or not file.is_file():
        return Manifest()
    return _of(_object(file), path)


def _object(file: Path) -> dict[str, Any]:
    """Returns the JSON object of a file.

    Raises:
        PluginError: the file cannot be read, is too large, or is not a JSON object.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise PluginError(f"{file} has more than {MAX_BYTES} bytes.", "Shorten it.")
        return msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise PluginError(f"{file} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise PluginError(f"{file} is not a JSON object: {error}.", "Correct it.") from error


def _of(tree: dict[str, Any], folder: Path) -> Manifest:
    config = _mapping(tree, "config")
    tools = _mapping(tree, "contracts").get("tools")
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
        cli=_names(tree.get("cli")),
        capabilities=_capabilities(_mapping(tree, "capabilities")),
        contract_tools=None if tools is None else _names(tools),
        config_schema=_mapping(tree, "configSchema") or _schema(config, folder),
        defaults=_mapping(config, "defaults"),
        requires=_mapping(tree, "requires"),
        skills=_names(tree.get("skills")),
        process=_process(tree.get("process")),
    )


def _text(tree: dict[str, Any], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def _mapping(tree: dict[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def _names(value: object) -> tuple[str, ...]:
    members = value if isinstance(value, list) else []
    return tuple(name for name in members if isinstance(name, str))


def _capabilities(tree: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Returns the paths by capability.

    Raises:
        PluginError: a capability is unknown.
    """
    if unknown_kinds := sorted(set(tree) - set(CAPABILITIES)):
        raise PluginError(
            f"capabilities of {FILE} lists {unknown_kinds[0]!r}.",
            f"Capabilities: {', '.join(CAPABILITIES)}.",
        )
    return {kind: _names(paths) for kind, paths in tree.items()}


def _process(tree: object) -> PluginProcess | None:
    """Returns the program of `process`.

    Raises:
        PluginError: it names no command.
    """
    if tree is None:
        return None
    command = _names(tree.get("command")) if isinstance(tree, dict) else ()
    if not isinstance(tree, dict) or not command:
        raise PluginError(
            f"process of {FILE} names no command.",
            'Write it so: "process": {"command": ["python3", "main.py"]}.',
        )
    return PluginProcess(command, _names(tree.get("env")))


def _schema(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the schema in `config`: an object, or the path of a file in the folder.

    Raises:
        PluginError: the file is not in the folder, or cannot be read.
    """
    path = config.get("schema")
    if not isinstance(path, str):
        return _mapping(config, "schema")
    file = (folder / path).resolve()
    if not file.is_relative_to(folder.resolve()):
        message = f"config.schema of {FILE} names {path!r}, which is not in its folder."
        raise PluginError(message, "Name a file of the plugin.")
    return _object(file)
