"""Commands such as `/invoice`, by which a person uses a skill (pure)."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from skerry.model.skill import Skill, SkillSet

SKILL: Final = "skill"
"""Name of the command `/skill NAME`, which uses any skill."""
MAX_NAME: Final = 32
"""Limit of a name, in characters: menus of platforms accept no longer ones."""
MAX_DESCRIPTION: Final = 100
"""Limit of a description, in characters."""
_TYPED: Final = re.compile(r"/([^\s/:@]{1,64})(?::|\s+|$)(.*)", re.DOTALL)
_OTHER: Final = re.compile(r"[^a-z0-9_]+")


class SkillCommand(Struct, frozen=True):
    """The command of a skill."""

    name: str
    skill: Skill

    @property
    def description(self) -> str:
        """Returns the beginning of the skill's description."""
        text = self.skill.description
        return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1].rstrip()}…"


def command_name(name: str) -> str:
    """Returns the name of a skill as the name of a command: of a to z, 0 to 9 and `_`."""
    return _OTHER.sub("_", name.lower()).strip("_")[:MAX_NAME] or SKILL


def skill_commands(skills: SkillSet, reserved: Iterable[str]) -> dict[str, SkillCommand]:
    """Returns the commands of the skills that may be used, by name.

    A name that is in use gets `_2`, `_3` and so on, so that no skill replaces a command.

    Args:
        skills: The skills of an agent.
        reserved: Names of other commands.

    """
    taken = {name.replace("-", "_") for name in reserved}
    commands: dict[str, SkillCommand] = {}
    for skill in skills.skills:
        if not (skill.is_invocable and skill.is_eligible):
            continue
        base = name = command_name(skill.name)
        number = 1
        while name in taken:
            number += 1
            suffix = f"_{number}"
            name = f"{base[: MAX_NAME - len(suffix)]}{suffix}"
        taken.add(name)
        commands[name] = SkillCommand(name, skill)
    return commands


def typed_skill(
    text: str, commands: dict[str, SkillCommand], names: tuple[str, ...] | None = None
) -> tuple[SkillCommand, str] | None:
    """Returns the command of a skill at the start of a message, and the text after it.

    Args:
        text: The message: `/NAME text`, or `/skill NAME text`.
        commands: Commands of skills by name.
        names: Names of the skills that are offered in this conversation; None is all.

    """
    typed = _TYPED.match(text)
    if typed is None:
        return None
    name, rest = typed[1], typed[2].strip()
    command = commands.get(command_name(name))
    if name.lower() == SKILL:
        word, _, rest = rest.partition(" ")
        by_skill = {each.skill.name.casefold(): each for each in commands.values()}
        command = by_skill.get(word.casefold()) or commands.get(command_name(word))
        if not word:
            return None
    if command is None or (names is not None and command.skill.name not in names):
        return None
    return command, rest.strip()


def user_turn(skill: Skill, text: str) -> str:
    """Returns the message to the model that asks it to use a skill."""
    request = (
        f'Use the skill "{skill.name}" for this request: read `{skill.prompt_path}` first, and'
        " follow it."
    )
    return f"{request}\n\n{text}" if text else request
