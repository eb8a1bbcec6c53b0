"""Reads a SKILL.md: its front matter, its requirements and its ways to install programs."""

import os
import re
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from pydantic import ValidationError

from skerry.config.root import Config
from skerry.infra.rooted_fs import EscapeError, Opened, RootedFolder
from skerry.model.errors import PluginError
from skerry.model.skill import SKILL_MD, InstallSpec, Skill, Tier
from skerry.policy.file_gate import obeyed
from skerry.policy.file_records import FileRecords
from skerry.workspace.front_matter import (
    InstallOption,
    Metadata,
    Requires,
    SkillMetadata,
    first_fault,
    front_matter,
    metadata,
    unmet,
)

MAX_DESCRIPTION: Final = 1024
"""Limit of a description, in characters: the prompt of every run contains it."""
_NAME: Final = re.compile(r"\w(?:[\w .-]{0,62}\w)?")
_TOOL: Final = "tool"
"""Value of `command-dispatch` for a skill whose command calls a tool."""


def read_skill(
    folder: Path, tier: Tier, max_bytes: int, plugin: str = "", records: FileRecords | None = None
) -> Skill:
    """Returns the skill in a folder; its requirements are not checked. Blocks.

    Args:
        folder: Absolute path without links.
        tier: Its source.
        max_bytes: Limit of its SKILL.md.
        plugin: Id of its plugin, if one registered it.
        records: Writers of files; with them `doubt` is set for text that is not the owner's.

    Raises:
        PluginError: the SKILL.md cannot be read or is invalid.
    """
    text, doubt = _text(folder, max_bytes, records)
    return replace(parsed(text, folder, tier, plugin), doubt=doubt)


def parsed(text: str, folder: Path, tier: Tier, plugin: str = "") -> Skill:
    """Returns the skill with the text of its SKILL.md.

    Raises:
        PluginError: the front matter is invalid.
    """
    path = folder / SKILL_MD
    values = front_matter(text, str(path))
    name, description = values.get("name", ""), values.get("description", "")
    if _NAME.fullmatch(name) is None:
        message = f"{path}: {name!r} is not a valid name of a skill."
        raise PluginError(message, "Use up to 64 letters, digits, spaces, `.`, `-` and `_`.")
    if not description or len(description) > MAX_DESCRIPTION:
        message = f"{path}: the description has {len(description)} characters."
        raise PluginError(message, f"Write 1 to {MAX_DESCRIPTION}: it says when to use the skill.")
    try:
        about = SkillMetadata.model_validate(metadata(values.get("metadata", ""), str(path)))
    except ValidationError as error:
        raise first_fault(error, str(path)) from error
    return Skill(
        name,
        " ".join(description.split()),
        folder,
        plugin,
        homepage=values.get("homepage", "") or values.get("website", "") or about.homepage,
        emoji=about.emoji,
        is_listed=values.get("disable-model-invocation", "false").lower() != "true",
        is_always=about.always,
        requires=_requirements(about),
        tier=tier,
        key=about.skill_key,
        is_invocable=values.get("user-invocable", "true").lower() != "false",
        tool=_command_tool(values, path),
        primary_env=about.primary_env,
        install=tuple(_spec(option, number) for number, option in enumerate(about.install)),
    )


def gated(skill: Skill, config: Config, environ: Mapping[str, str]) -> Skill:
    """Returns the skill with its unmet requirements."""
    needs = dict(skill.requires)
    about = Metadata.model_construct(
        os=needs.get("os", ()),
        always=skill.is_always,
        requires=Requires.model_construct(
            bins=needs.get("bins", ()),
            any_bins=needs.get("anyBins", ()),
            env=needs.get("env", ()),
            config=needs.get("config", ()),
        ),
    )
    return replace(skill, unmet=tuple(unmet(about, config, environ).items()))


def _command_tool(values: Mapping[str, str], path: Path) -> str:
    """Returns the tool that the command of the skill calls; empty for a message to the model.

    Raises:
        PluginError: one of the keys `command-...` has an unknown value.
    """
    dispatch, tool = values.get("command-dispatch", ""), values.get("command-tool", "")
    if not dispatch:
        return ""
    if dispatch.lower() != _TOOL or not tool:
        message = f"{path}: command-dispatch is {dispatch!r} and command-tool is {tool!r}."
        raise PluginError(message, "Write `command-dispatch: tool` and the name of the tool.")
    if (mode := values.get("command-arg-mode", "raw")) != "raw":
        message = f"{path}: command-arg-mode is {mode!r}."
        raise PluginError(message, "Write `command-arg-mode: raw`, or remove the key.")
    return tool


def _requirements(about: Metadata) -> tuple[tuple[str, tuple[str, ...]], ...]:
    needs = about.requires
    return (
        ("bins", needs.bins),
        ("anyBins", needs.any_bins),
        ("env", needs.env),
        ("config", needs.config),
        ("os", about.os),
    )


def _spec(option: InstallOption, number: int) -> InstallSpec:
    values: dict[str, Any] = option.model_dump(exclude={"formula", "module", "id"})
    package = option.formula or option.package or option.module
    return InstallSpec(
        **values | {"id": option.id or f"{option.kind}-{number}", "package": package}
    )


def _text(folder: Path, max_bytes: int, records: FileRecords | None) -> tuple[str, str]:
    """Returns the text of a SKILL.md that only its owner can write, and why it is doubted.

    Raises:
        PluginError: the file cannot be read, is too large, or other users may write it.
    """
    path = folder / SKILL_MD
    try:
        with RootedFolder(folder).look(SKILL_MD) as (file, opened):
            _check_owner(file.fileno(), path)
            data = file.read(max_bytes + 1)
    except (EscapeError, OSError) as error:
        raise PluginError(f"{path} cannot be read: {error}.") from error
    if len(data) > max_bytes:
        raise PluginError(f"{path} has more than {max_bytes} bytes.", "Move parts to other files.")
    try:
        return data.decode("utf-8-sig"), _doubt(opened, records, data)
    except UnicodeDecodeError as error:
        raise PluginError(f"{path} is not UTF-8 text: {error}.") from error


def _check_owner(descriptor: int, path: Path) -> None:
    """Checks that no other user of the machine may write a file.

    Raises:
        PluginError: another user may.
    """
    status = os.fstat(descriptor)
    forbidden = stat.S_IWGRP | stat.S_IWOTH
    if status.st_gid == os.getgid() == os.getuid():  # a group with the user as its only member
        forbidden = stat.S_IWOTH
    if status.st_uid not in {0, os.getuid()} or status.st_mode & forbidden:
        raise PluginError(f"Other users may write {path}.", f"Run: chmod go-w {path}")


def _doubt(opened: Opened, records: FileRecords | None, data: bytes) -> str:
    return obeyed(opened, records, sha256(data).digest()).reason if records is not None else ""
