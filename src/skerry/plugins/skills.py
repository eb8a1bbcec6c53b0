"""Reads the skills of a plugin: folders with a SKILL.md in the folders that it registered."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from skerry.config.root import Config
from skerry.model.errors import PluginError
from skerry.model.skill import SKILL_MD, Skill, Tier
from skerry.sdk.registrations import Registered
from skerry.workspace.front_matter import MAX_HEAD
from skerry.workspace.skill_md import gated, read_skill

logger = logging.getLogger(__name__)

MAX_SKILLS: Final = 100
"""Limit of the skills of one plugin."""


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
        skill = gated(read_skill(folder, Tier.PLUGIN, MAX_HEAD, plugin), config, environ)
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
