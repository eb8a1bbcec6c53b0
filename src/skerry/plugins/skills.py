"""Reads the skills of a plugin: folders with a SKILL.md in the folders that it registered."""

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from skerry.config.root import Config
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.errors import PluginError
from skerry.model.skill import SKILL_MD, Skill
from skerry.plugins.front_matter import (
    MAX_HEAD,
    Metadata,
    first_fault,
    front_matter,
    metadata,
    unmet,
)
from skerry.sdk.registrations import Registered

logger = logging.getLogger(__name__)

MAX_SKILLS: Final = 100
"""Limit of the skills of one plugin."""
MAX_DESCRIPTION: Final = 1024
"""Limit of a description, in characters: the prompt of every run contains it."""
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


def by_name(plugins: Iterable[Registered]) -> dict[str, Skill]:
    """Returns the skills by name; of two with one name, that of the plugin loaded first."""
    skills: dict[str, Skill] = {}
    for registered in plugins:
        for skill in registered.skills:
            first = skills.setdefault(skill.name, skill)
            if first is not skill:
                logger.warning(
                    "skill %s of plugin %s is hidden by that of plugin %s",
                    *(skill.name, skill.plugin, first.plugin),
                )
    return skills


def skills_of(
    plugin: str,
    root: Path,
    folders: Iterable[Path],
    config: Config,
    environ: Mapping[str, str],
) -> list[Skill]:
    """Returns the skills in each folder, which may itself be a skill.

    Args:
        plugin: Id of the plugin.
        root: Folder of the plugin, which must contain all others.
        folders: Folders with skills.
        config: Present configuration, for requirements.
        environ: Environment of the gateway, for requirements.

    Raises:
        PluginError: a folder is missing or outside of `root`, or a SKILL.md is invalid.
    """
    skills: dict[str, Skill] = {}
    for folder in _skill_folders(root.resolve(), folders):
        skill = _read(plugin, folder, config, environ)
        if skill.name in skills:
            message = f"Two of its skills are named {skill.name}: {skills[skill.name].folder} and"
            raise PluginError(f"{message} {folder}.", "Rename one.")
        skills[skill.name] = skill
    if len(skills) > MAX_SKILLS:
        raise PluginError(f"It has {len(skills)} skills; {MAX_SKILLS} are the limit.")
    return list(skills.values())


def _skill_folders(root: Path, folders: Iterable[Path]) -> Iterator[Path]:
    for named in folders:
        folder = (root / named).resolve()
        if not folder.is_relative_to(root):
            message = f"The folder of skills {named} is not in the folder of the plugin."
            raise PluginError(message, f"Move it into {root}.")
        if not folder.is_dir():
            raise PluginError(f"The folder of skills {folder} does not exist.", "Correct the path.")
        if (folder / SKILL_MD).is_file():
            yield folder
            continue
        inner = sorted(path for path in folder.iterdir() if (path / SKILL_MD).is_file())
        for path in inner[: MAX_SKILLS + 1]:
            if path.is_symlink():
                raise PluginError(f"{path} is a link.", "Put the folder of the skill there.")
            yield path


def _read(plugin: str, folder: Path, config: Config, environ: Mapping[str, str]) -> Skill:
    path = folder / SKILL_MD
    values = front_matter(_text(folder), str(path))
    name, description = values.get("name", ""), values.get("description", "")
    if _NAME.fullmatch(name) is None:
        message = f"{path}: {name!r} is not a valid name of a skill."
        raise PluginError(message, "Use up to 64 of a-z, 0-9, - and _.")
    if not description or len(description) > MAX_DESCRIPTION:
        message = f"{path}: the description has {len(description)} characters."
        raise PluginError(message, f"Write 1 to {MAX_DESCRIPTION}: it says when to use the skill.")
    try:
        about = Metadata.model_validate(metadata(values.get("metadata", ""), str(path)))
    except ValidationError as error:
        raise first_fault(error, str(path)) from error
    needs = about.requires
    requires = {
        "bins": needs.bins,
        "anyBins": needs.any_bins,
        "env": needs.env,
        "config": needs.config,
        "os": about.os,
    }
    return Skill(
        name,
        description,
        folder,
        plugin,
        homepage=values.get("homepage", ""),
        emoji=about.emoji,
        is_listed=values.get("disable-model-invocation", "false").lower() != "true",
        is_always=about.always,
        requires=tuple(requires.items()),
        unmet=tuple(unmet(about, config, environ).items()),
    )


def _text(folder: Path) -> str:
    """Returns the text of a SKILL.md that only the owner can write.

    Raises:
        PluginError: the file cannot be read, is too large, or other users may write it.
    """
    path = folder / SKILL_MD
    try:
        with RootedFolder(folder).look(SKILL_MD) as (file, _):
            status = os.fstat(file.fileno())
            data = file.read(MAX_HEAD + 1)
    except (EscapeError, OSError) as error:
        raise PluginError(f"{path} cannot be read: {error}.") from error
    if status.st_uid not in {0, os.getuid()} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PluginError(f"Others may write {path}.", f"Run: chmod go-w {path}")
    if len(data) > MAX_HEAD:
        raise PluginError(f"{path} has more than {MAX_HEAD} bytes.", "Move parts to other files.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PluginError(f"{path} is not UTF-8 text: {error}.") from error
