"""Reads HOOK.md: what a folder says of the hook in it, and whether this machine has what it needs.

The front matter is the subset of YAML that such files use: `key: value` a line, and `metadata` as
a JSON object, on its line or indented beneath it (openclaw-behaviour 8.1).
"""

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skerry.config.paths import MISSING, lookup, parse_key_path
from skerry.config.root import Config
from skerry.config.source import parse_any
from skerry.model.errors import ConfigError, PluginError

EVENTS: Final[Mapping[str, str]] = {
    "agent:bootstrap": "agent_bootstrap",
    "command": "command",
    "command:new": "command",
    "command:reset": "command",
    "command:stop": "command",
    "gateway:shutdown": "gateway_stop",
    "gateway:startup": "gateway_start",
    "message:received": "message_received",
    "message:sent": "message_sent",
    "session:end": "session_end",
    "session:reset": "before_reset",
    "session:start": "session_start",
}
"""Events that a hook may name, each with its hook point."""
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)")
_SYSTEMS: Final = {"linux": "linux", "darwin": "darwin", "win32": "win32"}


class Requires(BaseModel):
    """Requirements of a hook on the machine and on the configuration."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = Field(default=(), alias="anyBins")
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


class Metadata(BaseModel):
    """The part of `metadata` that is for gateways."""

    model_config = ConfigDict(extra="ignore")

    events: tuple[str, ...] = ()
    export: str = Field(default="handle", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The function of handler.py; `default`, which other gateways write, is `handle`."""
    emoji: str = ""
    os: tuple[str, ...] = ()
    always: bool = False
    """Enables the hook regardless of its requirements."""
    requires: Requires = Requires()


@dataclass(frozen=True, slots=True)
class Declared:
    """Content of HOOK.md."""

    name: str
    description: str
    homepage: str
    about: Metadata


def declared(text: str, folder: str) -> Declared:
    """Parses the text of HOOK.md; without a name the hook has that of its folder.

    Raises:
        PluginError: it is not to be understood, or asks for an event that there is not.
    """
    front = _FRONT.match(text.replace("\r\n", "\n"))
    if front is None:
        raise PluginError("HOOK.md does not begin with front matter between two lines ---.")
    values = _values(front[1])
    try:
        tree = parse_any(Path("metadata"), values.get("metadata", ""))
    except ConfigError as error:
        raise PluginError(f"The metadata of HOOK.md is not a JSON object: {error}") from error
    inner = tree if isinstance(tree, dict) else {}
    ours = next((inner[key] for key in ("skerry", "openclaw") if key in inner), inner)
    try:
        about = Metadata.model_validate(ours)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise PluginError(f"metadata.{where} of HOOK.md: {first['msg']}.") from error
    if about.export == "default":
        about = about.model_copy(update={"export": "handle"})
    unknown = [event for event in about.events if event not in EVENTS]
    if unknown or not about.events:
        what = f"Unknown event {unknown[0]!r}." if unknown else "It names no event."
        raise PluginError(what, f"Events: {', '.join(EVENTS)}.")
    name = values.get("name") or folder
    return Declared(name, values.get("description", ""), values.get("homepage", ""), about)


def _values(front: str) -> dict[str, str]:
    """Returns the text of each key; lines that are indented go on with the one before."""
    fields: dict[str, str] = {}
    key = ""
    for line in front.splitlines():
        begins = _KEY.fullmatch(line)
        if begins is not None:
            key = begins[1]
            fields[key] = _unquoted(begins[2].strip())
        elif line[:1].isspace() and key:
            fields[key] = f"{fields[key]}\n{line}".strip()
    return fields


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def missing(about: Metadata, config: Config, environ: Mapping[str, str]) -> list[str]:
    """Returns the unmet requirements of the hook, in words; empty if it can take part."""
    if about.always:
        return []
    needs = about.requires
    unmet = [f"the program {one}" for one in needs.bins if shutil.which(one) is None]
    if needs.any_bins and not any(map(shutil.which, needs.any_bins)):
        unmet.append(f"one of the programs {', '.join(needs.any_bins)}")
    unmet += [f"the variable {variable}" for variable in needs.env if not environ.get(variable)]
    unmet += [f"the setting {setting}" for setting in needs.config if not _is_set(config, setting)]
    if about.os and sys.platform not in {_SYSTEMS.get(system, system) for system in about.os}:
        unmet.append(f"the system {' or '.join(about.os)}")
    return unmet


def _is_set(config: Config, path: str) -> bool:
    if path == "workspace.dir":  # every agent has one
        return True
    tree: Any = config.model_dump(mode="json", by_alias=True)
    try:
        value = lookup(tree, parse_key_path(path))
    except ConfigError:
        return False
    return value is not MISSING and bool(value)
