"""Reads the front matter of HOOK.md and SKILL.md, and checks their requirements.

The front matter is a subset of YAML: lines `key: value`, a text on the lines below `key: >` or
`key: |`, and `metadata` as a JSON object on its line or indented below it (openclaw-behaviour 8.1),
or as nested keys (`block_yaml`).
"""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skerry.config.paths import MISSING, lookup, parse_key_path
from skerry.config.root import Config
from skerry.config.source import parse_any
from skerry.model.errors import ConfigError, PluginError
from skerry.workspace.block_yaml import BlockYamlError, parse_block_yaml

MAX_HEAD: Final = 65_536
"""Limit of such a file, in bytes."""
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)")
_BLOCK: Final = re.compile(r"[|>][+-]?")
"""Marks of a text on the lines below."""


class Requires(BaseModel):
    """Requirements on the machine and on the configuration."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = Field(default=(), alias="anyBins")
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


class InstallOption(BaseModel):
    """A way to install the programs that a skill requires."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    kind: str = Field(max_length=32)
    """`brew`, `apt`, `node`, `go`, `uv` or `download`; another kind is shown, but never run."""
    id: str = Field(default="", max_length=64)
    label: str = Field(default="", max_length=200)
    bins: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    formula: str = ""
    package: str = ""
    module: str = ""
    url: str = ""
    sha256: str = ""
    archive: str = ""
    extract: bool | None = None
    strip_components: int | None = Field(default=None, alias="stripComponents", ge=0, le=100)
    target_dir: str = Field(default="", alias="targetDir")


class Metadata(BaseModel):
    """Keys of `metadata` that the gateway uses."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    emoji: str = ""
    os: tuple[str, ...] = ()
    always: bool = False
    """True to skip the check of the requirements."""
    requires: Requires = Requires()


class SkillMetadata(Metadata):
    """Keys of `metadata` of a SKILL.md."""

    homepage: str = ""
    skill_key: str = Field(default="", alias="skillKey", max_length=64)
    primary_env: str = Field(default="", alias="primaryEnv", max_length=128)
    install: tuple[InstallOption, ...] = Field(default=(), max_length=32)


def front_matter(text: str, file: str) -> dict[str, str]:
    """Returns the values of the front matter by key.

    Raises:
        PluginError: the text has no front matter.
    """
    front = _FRONT.match(text.replace("\r\n", "\n"))
    if front is None:
        raise PluginError(f"{file} does not begin with front matter between two lines ---.")
    return _values(front[1])


def metadata(text: str, file: str) -> dict[str, Any]:
    """Returns the value of `skerry`, `openclaw` or `clawdbot` in `metadata`, or all of it.

    Raises:
        PluginError: the text is neither JSON nor nested keys.
    """
    try:
        is_json = not text or text.startswith("{")
        tree = parse_any(Path("metadata"), text) if is_json else parse_block_yaml(text)
    except ConfigError as error:
        raise PluginError(f"The metadata of {file} is not a JSON object: {error}") from error
    except BlockYamlError as error:
        raise PluginError(f"The metadata of {file} cannot be read: {error}.") from error
    inner = tree if isinstance(tree, dict) else {}
    part = next((inner[key] for key in ("skerry", "openclaw", "clawdbot") if key in inner), inner)
    return part if isinstance(part, dict) else {}


def first_fault(error: ValidationError, file: str) -> PluginError:
    """Returns the error about the first invalid key of the metadata."""
    fault = error.errors(include_url=False)[0]
    path = ".".join(map(str, fault["loc"]))
    return PluginError(f"metadata.{path} of {file}: {fault['msg']}.")


def _values(front: str) -> dict[str, str]:
    """Returns the values by key; indented lines continue the value before them."""
    blocks: dict[str, list[str]] = {}
    key = ""
    for line in front.splitlines():
        begins = _KEY.fullmatch(line)
        if begins is not None:
            key = begins[1]
            blocks[key] = [_unquoted(begins[2].strip())]
        elif key and (line[:1].isspace() or not line):
            blocks[key].append(line)
    return {key: _joined(first, below) for key, (first, *below) in blocks.items()}


def _joined(first: str, below: list[str]) -> str:
    text = dedent("\n".join(below)).strip("\n").rstrip()
    if _BLOCK.fullmatch(first):
        return text if first[0] == "|" else " ".join(text.split())
    return f"{first}\n{text}".strip("\n") if text else first


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def unmet(
    about: Metadata, config: Config, environ: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Returns the unmet requirements by kind: `bins`, `anyBins`, `env`, `config`, `os`."""
    if about.always:
        return {}
    needs = about.requires
    lacking = {
        "bins": tuple(name for name in needs.bins if shutil.which(name) is None),
        "anyBins": () if any(map(shutil.which, needs.any_bins)) else needs.any_bins,
        "env": tuple(variable for variable in needs.env if not environ.get(variable)),
        "config": tuple(setting for setting in needs.config if not _is_set(config, setting)),
        "os": () if sys.platform in about.os else about.os,
    }
    return {kind: names for kind, names in lacking.items() if names}


def missing(about: Metadata, config: Config, environ: Mapping[str, str]) -> list[str]:
    """Returns the unmet requirements as texts; empty when all are met."""
    lacking = unmet(about, config, environ)
    texts = [f"the program {name}" for name in lacking.get("bins", ())]
    if names := lacking.get("anyBins"):
        texts.append(f"one of the programs {', '.join(names)}")
    texts += [f"the variable {variable}" for variable in lacking.get("env", ())]
    texts += [f"the setting {setting}" for setting in lacking.get("config", ())]
    if names := lacking.get("os"):
        texts.append(f"the system {' or '.join(names)}")
    return texts


def _is_set(config: Config, path: str) -> bool:
    if path == "workspace.dir":  # every agent has one
        return True
    tree: Any = config.model_dump(mode="json", by_alias=True)
    try:
        value = lookup(tree, parse_key_path(path))
    except ConfigError:
        return False
    return value is not MISSING and bool(value)
