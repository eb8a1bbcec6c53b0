"""The bundled skills: their size in prompts, their requirements, and the commands they name."""

import re
from pathlib import Path

import pytest

import skerry
from skerry.cli.main import make_parser
from skerry.cli.meant import WrongUsageError
from skerry.features.skill_registry.needs import plan_of
from skerry.features.skill_registry.scan import findings_of
from skerry.model.skill import Skill, Tier
from skerry.workspace.skill_md import read_skill

ROOT = Path(skerry.__file__).parent / "features/skills/bundled"
FOLDERS = sorted(path for path in ROOT.iterdir() if path.is_dir())
MAX_LISTED = 300
"""Characters of a skill in a prompt."""
_COMMAND = re.compile(r"`skerry ([^`]+)`")


def skill_in(folder: Path) -> Skill:
    return read_skill(folder, Tier.BUNDLED, 256_000)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_each_skill_is_small_and_named_like_its_folder(folder: Path) -> None:
    skill = skill_in(folder)
    assert skill.name == folder.name
    assert len(skill.description) <= 120
    assert ": " not in skill.description  # which other readers of YAML refuse
    assert skill.location.stat().st_size < 4_000
    assert len(skill.name) + len(skill.description) + len(str(skill.location)) < MAX_LISTED


def test_no_skill_has_a_finding(folder: Path) -> None:
    findings = findings_of({folder.name: (folder / "SKILL.md").read_bytes()})
    assert findings == []


def test_each_required_program_can_be_installed(folder: Path) -> None:
    skill = skill_in(folder)
    needs = dict(skill.requires)["bins"]
    assert bool(needs) == bool(skill.install)
    for spec in skill.install:
        assert set(needs) <= set(spec.bins)
        assert plan_of(spec, is_root=True).command


def test_the_commands_of_this_program_exist(folder: Path) -> None:
    for command in _COMMAND.findall((folder / "SKILL.md").read_text(encoding="utf-8")):
        words = command.replace("'[\"cron\"]'", "VALUE").replace("COMMAND", "status").split()
        try:
            make_parser(words[0]).parse_args(words)
        except WrongUsageError as error:
            pytest.fail(f"skerry {command}: {error.message}")
        except SystemExit:
            continue  # --help


def test_the_guide_lists_them_all() -> None:
    guide = Path(__file__).parents[4] / "docs/guide/skill-registry.md"
    section = guide.read_text(encoding="utf-8").partition("## Bundled skills")[2]
    names = set(re.findall(r"`([a-z-]+)`", section.partition("None is in a prompt")[0]))
    assert names == {folder.name for folder in FOLDERS}
    assert f"{len(FOLDERS)} skills" in section
