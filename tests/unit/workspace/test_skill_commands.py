"""Names of the commands of skills, and the messages that give them."""

from pathlib import Path
from typing import Any

import pytest

from skerry.model.skill import Skill, SkillSet, Tier
from skerry.workspace.skill_commands import (
    MAX_DESCRIPTION,
    MAX_NAME,
    skill_commands,
    typed_skill,
    user_turn,
)


def skill(name: str, **more: Any) -> Skill:
    return Skill(name, f"Does {name}.", Path("/w/skills") / name, tier=Tier.WORKSPACE, **more)


@pytest.mark.requirement("skills-slash-commands")
def test_names_are_sanitised_unique_and_never_those_of_other_commands() -> None:
    names = ("Count Frogs!", "count-frogs", "status", "long" * 20, "éè", "plug-in")
    commands = skill_commands(SkillSet(tuple(map(skill, names))), ["status", "plug-in"])
    assert list(commands) == [
        "count_frogs",
        "count_frogs_2",
        "status_2",
        ("long" * 20)[:MAX_NAME],
        "skill",
        "plug_in_2",
    ]
    assert all(len(name) <= MAX_NAME for name in commands)


@pytest.mark.requirement("skills-user-invocable")
def test_a_skill_that_is_not_invocable_or_not_eligible_has_no_command() -> None:
    skills = (skill("a"), skill("b", is_invocable=False), skill("c", is_listed=False))
    off = Skill("d", "D.", Path("/d"), off="skills.entries.d.enabled")
    assert list(skill_commands(SkillSet((*skills, off)), ())) == ["a", "c"]


def test_a_long_description_is_cut() -> None:
    long = Skill("a", "word " * 100, Path("/a"))
    (command,) = skill_commands(SkillSet((long,)), ()).values()
    assert len(command.description) <= MAX_DESCRIPTION
    assert command.description.endswith("…")


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("/count_frogs in the pond", ("count-frogs", "in the pond")),
        ("/Count-Frogs", ("count-frogs", "")),
        ("/count_frogs: two\nlines", ("count-frogs", "two\nlines")),
        ("/skill count-frogs now", ("count-frogs", "now")),
        ("/skill COUNT_FROGS", ("count-frogs", "")),
        ("/skill", None),
        ("/skill toads", None),
        ("//count_frogs", None),
        ("/count_frogs/x", None),
        ("count_frogs", None),
        ("/toads", None),
    ],
)
def test_a_message_names_a_skill_at_its_start(text: str, typed: tuple[str, str] | None) -> None:
    commands = skill_commands(SkillSet((skill("count-frogs"),)), ("skill",))
    result = typed_skill(text, commands)
    assert (result and (result[0].skill.name, result[1])) == typed
    assert typed_skill(text, commands, ("toads",)) is None, "the group offers other skills"


def test_the_message_to_the_model_names_the_skill_and_its_file() -> None:
    assert user_turn(skill("frogs"), "how many?") == (
        'Use the skill "frogs" for this request: read `skills/frogs/SKILL.md` first, and follow it.'
        "\n\nhow many?"
    )
    assert user_turn(skill("frogs"), "").endswith("follow it.")
