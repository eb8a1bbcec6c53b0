"""Skills of all tiers: precedence, changes of files, limits, and folders that are refused."""

from pathlib import Path
from typing import Any

import pytest

from skerry.config.root import Config
from skerry.model.ids import AgentId
from skerry.model.skill import Skill, SkillSet, Tier
from skerry.workspace.skill_catalogue import SkillCatalogue

MAIN = AgentId("main")
FRONT = "---\nname: {name}\ndescription: {about}\n{more}---\n\nCount them.\n"


def write(root: Path, name: str, about: str = "Counts.", more: str = "", folder: str = "") -> Path:
    file = root / (folder or name) / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(FRONT.format(name=name, about=about, more=more))
    file.chmod(0o600)
    return file


def config(home: Path, **skills: Any) -> Config:
    tree = {"skills": skills, "agents": {"list": [{"id": "main"}, {"id": "cook", "skills": ["a"]}]}}
    return Config.model_validate({"state_dir": home, "path": home / "skerry.json", **tree})


def workspace(home: Path) -> Path:
    return home / "workspace" / "skills"


def by_tier(skills: SkillSet) -> dict[str, Tier]:
    return {skill.name: skill.tier for skill in skills.skills}


@pytest.mark.requirement("skills-tier-order")
@pytest.mark.requirement("skills-tier-managed")
@pytest.mark.requirement("workspace-dir-skills")
def test_of_equal_names_the_workspace_wins_then_managed_plugin_and_bundled(tmp_path: Path) -> None:
    roots = (workspace(tmp_path), tmp_path / "skills", tmp_path / "bundled", tmp_path / "extra")
    for count, root in enumerate(roots, 1):
        for name in ("a", "b", "d", "e")[:count]:
            write(root, name, about=f"From {root.name}.")
    plugins = {
        name: Skill(name, "From a plugin.", tmp_path / "plugin" / name, "pond") for name in "abcd"
    }
    catalogue = SkillCatalogue({}, None, (tmp_path / "bundled",), plugins)
    given = config(tmp_path, allowBundled=["*"], load={"extraDirs": ["extra"]})
    skills = catalogue.load(given, MAIN)
    assert by_tier(skills) == {
        "a": Tier.WORKSPACE,
        "b": Tier.MANAGED,
        "c": Tier.PLUGIN,
        "d": Tier.PLUGIN,
        "e": Tier.EXTRA,
    }
    assert [skill.tier for skill in skills.hidden if skill.name == "d"] == ["bundled", "extra"]
    catalogue.plugins = {}
    assert by_tier(catalogue.load(given, MAIN))["d"] is Tier.BUNDLED
