"""Skills of all tiers: precedence, changes of files, limits, and folders that are refused."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from skerry.config.root import Config
from skerry.model.ids import AgentId
from skerry.model.origin import Origin
from skerry.model.skill import Skill, SkillSet, Tier
from skerry.policy.file_records import FileRecord, FileRecords
from skerry.workspace.skill_catalogue import SkillCatalogue

MAIN, COOK = AgentId("main"), AgentId("cook")
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
    configuration = config(tmp_path, allowBundled=["*"], load={"extraDirs": ["extra"]})
    skills = catalogue.load(configuration, MAIN)
    assert by_tier(skills) == {
        "a": Tier.WORKSPACE,
        "b": Tier.MANAGED,
        "c": Tier.PLUGIN,
        "d": Tier.PLUGIN,
        "e": Tier.EXTRA,
    }
    assert [skill.tier for skill in skills.hidden if skill.name == "d"] == ["bundled", "extra"]
    catalogue.plugins = {}
    assert by_tier(catalogue.load(configuration, MAIN))["d"] is Tier.BUNDLED


@pytest.mark.requirement("skills-tier-workspace")
def test_a_workspace_has_its_own_skills_and_an_agent_those_that_its_list_names(
    tmp_path: Path,
) -> None:
    write(workspace(tmp_path), "a")
    write(workspace(tmp_path), "b")
    write(tmp_path / "workspace-cook" / "skills", "a", about="Cooks.")
    write(tmp_path / "skills", "c")
    catalogue, given = SkillCatalogue({}), config(tmp_path)
    main, cook = catalogue.load(given, MAIN), catalogue.load(given, COOK)
    assert [skill.name for skill in main.offered()] == ["a", "b", "c"]
    assert [(skill.name, skill.description) for skill in cook.offered()] == [("a", "Cooks.")]
    assert [skill.off for skill in cook.skills if skill.name == "c"] == ["agents.list[cook].skills"]
    assert [skill.name for skill in main.offered(("b", "none"))] == ["b"], "the list of a group"
    assert main.skills[0].prompt_path == "skills/a/SKILL.md"
    assert main.skills[2].prompt_path == str(main.skills[2].location)


@pytest.mark.requirement("workspace-dir-skills")
async def test_a_change_is_seen_by_the_next_run_and_nothing_is_read_without_one(
    tmp_path: Path,
) -> None:
    root, given = workspace(tmp_path), config(tmp_path)
    catalogue, folder = SkillCatalogue({}), given.workspace(MAIN)
    first = await catalogue.current(given, MAIN)
    assert first.skills == ()
    assert catalogue.unchanged(given, MAIN, folder) is first
    file = write(root, "a")
    assert catalogue.unchanged(given, MAIN, folder) is None
    second = await catalogue.current(given, MAIN)
    assert [skill.description for skill in second.skills] == ["Counts."]
    assert await catalogue.current(given, MAIN) is second
    write(root, "a", about="Counts again.")
    assert [each.description for each in (await catalogue.current(given, MAIN)).skills] == [
        "Counts again."
    ]
    file.unlink()
    assert (await catalogue.current(given, MAIN)).skills == ()
    assert (await catalogue.current(config(tmp_path), MAIN)).skills == ()


@pytest.mark.requirement("skills-metadata")
@pytest.mark.requirement("skills-install-specs")
def test_the_metadata_has_the_extensions_of_a_skill(tmp_path: Path) -> None:
    ways = [
        {"kind": "brew", "formula": "gh", "bins": ["gh"]},
        {"id": "deb", "kind": "apt", "package": "gh", "label": "Install gh", "os": ["linux"]},
        {"kind": "download", "url": "https://example.org/a.tgz", "stripComponents": 1},
    ]
    about = {
        "emoji": "🐙",
        "skillKey": "hub",
        "primaryEnv": "HUB_KEY",
        "requires": {"bins": ["no-such-program"]},
        "install": ways,
    }
    write(workspace(tmp_path), "a", more=f"metadata: {json.dumps({'openclaw': about})}\n")
    (skill,) = SkillCatalogue({}).load(config(tmp_path), MAIN).skills
    assert (skill.emoji, skill.entry, skill.primary_env) == ("🐙", "hub", "HUB_KEY")
    assert (skill.is_eligible, dict(skill.unmet)) == (False, {"bins": ("no-such-program",)})
    brew, apt, download = skill.install
    assert (brew.kind, brew.id, brew.package, brew.bins) == ("brew", "brew-0", "gh", ("gh",))
    assert (apt.id, apt.label, apt.package, apt.os) == ("deb", "Install gh", "gh", ("linux",))
    assert (download.url, download.strip_components) == ("https://example.org/a.tgz", 1)
    off = config(tmp_path, entries={"hub": {"enabled": False}})
    (skill,) = SkillCatalogue({}).load(off, MAIN).skills
    assert skill.off == "skills.entries.hub.enabled"


@pytest.mark.requirement("skills-user-invocable")
@pytest.mark.requirement("skills-command-dispatch")
def test_the_front_matter_says_how_a_person_uses_a_skill(tmp_path: Path) -> None:
    write(workspace(tmp_path), "a")
    write(workspace(tmp_path), "b", more="user-invocable: false\n")
    write(workspace(tmp_path), "c", more="command-dispatch: tool\ncommand-tool: exec\n")
    a, b, c = SkillCatalogue({}).load(config(tmp_path), MAIN).skills
    assert [skill.is_invocable for skill in (a, b, c)] == [True, False, True]
    assert [skill.tool for skill in (a, b, c)] == ["", "", "exec"]
    assert b.is_offered, "the model may use it"


def test_a_program_that_is_installed_later_makes_a_skill_eligible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, given = tmp_path / "bin", config(tmp_path)
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    needs = {"openclaw": {"requires": {"bins": ["pond"]}}}
    write(workspace(tmp_path), "a", more=f"metadata: {json.dumps(needs)}\n")
    catalogue = SkillCatalogue({"PATH": str(programs)})
    assert catalogue.load(given, MAIN).offered() == ()
    (programs / "pond").touch(0o755)
    assert catalogue.unchanged(given, MAIN, given.workspace(MAIN)) is None
    assert [skill.name for skill in catalogue.load(given, MAIN).offered()] == ["a"]


def test_bundled_skills_are_off_until_the_configuration_names_them(tmp_path: Path) -> None:
    write(tmp_path / "bundled", "a")
    catalogue = SkillCatalogue({}, bundled=(tmp_path / "bundled",))
    assert catalogue.load(config(tmp_path), MAIN).skills == (), "no run reads them"
    (skill,) = catalogue.load(config(tmp_path), MAIN, every=True).skills
    assert skill.off == "skills.allowBundled"
    for given in ({"allowBundled": ["a"]}, {"entries": {"a": {"enabled": True}}}):
        (skill,) = catalogue.load(config(tmp_path, **given), MAIN).offered()
        assert skill.tier is Tier.BUNDLED


def test_a_broken_folder_is_a_fault_and_the_others_are_used(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    write(root, "good")
    write(root, "good", folder="zweite")
    (write(root, "bare")).write_text("no front matter")
    write(root, "large", about="x" * 900, more="#" * 200_000 + "\n").chmod(0o600)
    write(root, "shared").chmod(0o602)
    write(root, "call", more="command-dispatch: shell\n")
    write(tmp_path / "beside", "out")
    (root / "out").symlink_to(tmp_path / "beside" / "out")
    (root / "inner").symlink_to(root / "good")
    (root / "empty").mkdir()
    configuration = config(
        tmp_path, limits={"maxSkillFileBytes": 100_000}, load={"extraDirs": ["none"]}
    )
    skills = SkillCatalogue({}).load(configuration, MAIN)
    assert [skill.name for skill in skills.skills] == ["good"]
    problems = {fault.path.name: fault.problem for fault in skills.faults}
    assert "front matter" in problems.pop("bare")
    assert "more than 100000 bytes" in problems.pop("large")
    assert "Other users may write" in problems.pop("shared")
    assert "command-dispatch" in problems.pop("call")
    assert "outside of" in problems.pop("out")
    assert "has the name good" in problems.pop("zweite")
    assert "does not exist" in problems.pop("none")
    assert problems == {}


def test_the_numbers_of_folders_and_of_skills_are_limited(tmp_path: Path) -> None:
    for name in "abcd":
        write(workspace(tmp_path), name)
    configuration = config(
        tmp_path, limits={"maxSkillsLoadedPerSource": 2, "maxCandidatesPerRoot": 3}
    )
    skills = SkillCatalogue({}).load(configuration, MAIN)
    assert [skill.name for skill in skills.skills] == ["a", "b"]
    assert ["examined" in fault.problem for fault in skills.faults] == [True, False]
    assert "more than 2 skills" in skills.faults[1].problem


def test_a_skill_that_a_run_with_text_of_others_wrote_is_not_used(tmp_path: Path) -> None:
    file = write(workspace(tmp_path), "a")
    data = file.read_bytes()
    taint = frozenset({Origin.WEB})
    record = FileRecord(str(file.resolve()), sha256(data).digest(), len(data), "main", taint)
    records = FileRecords([record])
    catalogue, given = SkillCatalogue({}, records), config(tmp_path)
    (skill,) = catalogue.load(given, MAIN).skills
    assert skill.doubt
    assert not skill.is_eligible
    records.trust(str(file.resolve()), sha256(data).digest(), len(data))
    assert catalogue.unchanged(given, MAIN, given.workspace(MAIN)) is None
    (skill,) = catalogue.load(given, MAIN).skills
    assert skill.is_eligible
