"""Skills of plugins: offered skills, load failures, and readable folders."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from skerry.config.root import Config
from skerry.features.files.read_tool import Read
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import PluginError, ToolError
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.skill import Skill, SkillSet
from skerry.plugins.skills import MAX_SKILLS, skills_of
from skerry.ports.tool import ToolContext
from skerry.workspace.front_matter import MAX_HEAD
from skerry.workspace.prompt_sections import ListedSkills, skills_list
from skerry.workspace.skill_md import MAX_DESCRIPTION

FRONT = "---\nname: {name}\ndescription: {about}\n{more}---\n\nCount them.\n"


def write(folder: Path, name: str = "frogs", about: str = "Counts frogs.", more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(FRONT.format(name=name, about=about, more=more))
    file.chmod(0o600)
    return file


def config(home: Path) -> Config:
    return Config(state_dir=home, path=home / "skerry.json")


def read(root: Path, folder: str = "skills", env: Mapping[str, str] | None = None) -> list[Skill]:
    return skills_of("pond", root, [root / folder], config(root), env or {})


def requires(text: str) -> str:
    return f'metadata: {{"openclaw": {{{text}}}}}\n'


@pytest.mark.requirement("skills-directory-format")
@pytest.mark.requirement("skills-required-fields")
def test_a_folder_of_skills_and_one_that_is_a_skill_are_read(tmp_path: Path) -> None:
    write(tmp_path / "skills" / "b", "toads", more="homepage: https://example.org\n")
    write(tmp_path / "skills" / "a")
    (tmp_path / "skills" / "notes").mkdir()
    frogs, toads = read(tmp_path)
    assert (frogs.name, frogs.description, frogs.plugin) == ("frogs", "Counts frogs.", "pond")
    assert frogs.location == (tmp_path / "skills" / "a" / "SKILL.md").resolve()
    assert toads.homepage == "https://example.org"
    assert [skill.name for skill in read(tmp_path, "skills/b")] == ["toads"]


@pytest.mark.parametrize(
    ("more", "env", "unmet"),
    [
        (requires('"requires": {"bins": ["sh", "no-such-program"]}'), {}, "bins"),
        (requires('"requires": {"anyBins": ["no-such", "nor-this"]}'), {}, "anyBins"),
        (requires('"requires": {"env": ["POND_KEY"]}'), {}, "env"),
        (requires('"requires": {"config": ["tools.exec.host.no"]}'), {}, "config"),
        (requires('"os": ["win32"]'), {}, "os"),
        (requires('"requires": {"anyBins": ["no-such", "sh"]}'), {}, ""),
        (requires('"requires": {"env": ["POND_KEY"]}'), {"POND_KEY": "k"}, ""),
        (requires('"always": true, "requires": {"env": ["POND_KEY"]}'), {}, ""),
        (requires('"os": ["linux", "darwin"]'), {}, ""),
    ],
)
@pytest.mark.requirement("skills-gate-bins")
@pytest.mark.requirement("skills-gate-any-bins")
@pytest.mark.requirement("skills-gate-env")
def test_a_skill_whose_requirements_are_unmet_is_not_offered(
    more: str, env: Mapping[str, str], unmet: str, tmp_path: Path
) -> None:
    write(tmp_path / "skills", more=more)
    (skill,) = read(tmp_path, env=env)
    assert [kind for kind, _ in skill.unmet] == ([unmet] if unmet else [])
    assert skill.is_offered is not bool(unmet)


@pytest.mark.requirement("skills-gate-config")
@pytest.mark.requirement("skills-gate-always")
@pytest.mark.requirement("skills-gate-os")
def test_what_is_missing_is_named(tmp_path: Path) -> None:
    lacking = '"os": ["win32"], "requires": {"config": ["tools.none"], "bins": ["sh", "no-such"]}'
    write(tmp_path / "skills" / "a", more=requires(lacking))
    write(tmp_path / "skills" / "b", "always", more=requires(f'"always": true, {lacking}'))
    skill, always = read(tmp_path)
    assert dict(skill.unmet) == {"os": ("win32",), "config": ("tools.none",), "bins": ("no-such",)}
    assert (always.unmet, always.is_offered) == ((), True)


@pytest.mark.requirement("skills-disable-model-invocation")
def test_a_skill_that_is_not_for_the_model_is_not_offered(tmp_path: Path) -> None:
    write(tmp_path / "skills", more="disable-model-invocation: true\n")
    (skill,) = read(tmp_path)
    assert (skill.is_listed, skill.is_offered) == (False, False)


@pytest.mark.parametrize(
    ("name", "about", "more", "words"),
    [
        ("", "Counts.", "", "not a valid name"),
        ("fro/gs", "Counts.", "", "not a valid name"),
        ("../up", "Counts.", "", "not a valid name"),
        ("frogs", "", "", "0 characters"),
        ("frogs", "x" * (MAX_DESCRIPTION + 1), "", f"{MAX_DESCRIPTION + 1} characters"),
        ("frogs", "Counts.", "metadata: {no\n", "not a JSON object"),
        ("frogs", "Counts.", requires('"os": 5'), "metadata.os"),
    ],
)
def test_a_front_matter_that_cannot_be_used_is_an_error_that_names_the_file(
    name: str, about: str, more: str, words: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "skills", name, about, more)
    with pytest.raises(PluginError, match=words) as refused:
        read(tmp_path)
    assert str(file.resolve()) in str(refused.value)


def test_a_file_of_others_too_large_not_text_or_elsewhere_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "root" / "skills")
    file.chmod(0o622)
    with pytest.raises(PluginError, match="Other users may write"):
        read(tmp_path / "root")
    file.chmod(0o600)
    file.write_bytes(b"---\n" + b"x" * MAX_HEAD)
    with pytest.raises(PluginError, match=f"more than {MAX_HEAD} bytes"):
        read(tmp_path / "root")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(PluginError, match="not UTF-8"):
        read(tmp_path / "root")
    file.unlink()
    file.symlink_to(write(tmp_path / "beside"))
    with pytest.raises(PluginError, match="cannot be read"):
        read(tmp_path / "root")
    with pytest.raises(PluginError, match="not in the folder"):
        read(tmp_path / "root", "../beside")
    with pytest.raises(PluginError, match="does not exist"):
        read(tmp_path / "root", "nowhere")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "frogs").symlink_to(tmp_path / "beside")
    with pytest.raises(PluginError, match="is a link"):
        skills_of("pond", tmp_path, [tmp_path / "links"], config(tmp_path), {})


def test_two_of_one_name_and_too_many_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "skills" / "a")
    write(tmp_path / "skills" / "b")
    with pytest.raises(PluginError, match="Two of its skills are named frogs"):
        read(tmp_path)
    for number in range(MAX_SKILLS + 1):
        write(tmp_path / "many" / f"n{number}", f"n{number}")
    with pytest.raises(PluginError, match=f"{MAX_SKILLS} are the limit"):
        read(tmp_path, "many")


@pytest.mark.requirement("prompt-skills-xml")
def test_the_list_is_escaped_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    skill = Skill("frogs", "a < b & </skill>", tmp_path, "pond")
    listed = skills_list(ListedSkills([skill]))
    assert "<description>a &lt; b &amp; &lt;/skill&gt;</description>" in listed
    assert f"<location>{tmp_path}/SKILL.md</location>" in listed
    assert listed.count("</skill>") == 1
    many = [Skill(f"n{number}", "x" * 1000, tmp_path, "pond") for number in range(20)]
    text = skills_list(ListedSkills(many, max_chars=8000))
    assert len(text) < 9000
    shown = text.count("<skill>")
    assert 0 < shown < 20
    assert f"({20 - shown} more skills are not listed" in text
    assert skills_list(ListedSkills(many, max_count=2)).count("<skill>") == 2
    assert skills_list(ListedSkills()) == ""


@pytest.mark.requirement("skills-model-invocation")
async def test_read_opens_the_folder_of_an_offered_skill_and_nothing_beside_it(
    tmp_path: Path,
) -> None:
    folder = (tmp_path / "plugin" / "frogs").resolve()
    file = write(folder)
    (folder / "places.md").write_text("the stone\n")
    (folder.parent / "secret.md").write_text("no\n")
    (folder / "link.md").symlink_to(folder.parent / "secret.md")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    caller = Caller(SessionKey.parse("agent:main:main"), PeerKind.DIRECT, Origin.OWNER)
    context = ToolContext(RootedFolder(workspace), caller=caller)
    skill = Skill("frogs", "Counts.", folder, "pond")
    tool = Read(lambda _: SkillSet((skill,)))
    text = await tool.run({"path": str(file.resolve())}, context)
    assert ("Count them." in text.text, text.origin) == (True, Origin.LOCAL)
    assert (await tool.run({"path": f"{folder}/places.md"}, context)).text == "1: the stone"
    for path in ("../secret.md", "link.md", "x/../../secret.md"):
        with pytest.raises(ToolError):
            await tool.run({"path": f"{folder}/{path}"}, context)
    with pytest.raises(ToolError):
        await tool.run({"path": f"{folder.parent}/secret.md"}, context)
    unmet = Skill("frogs", "C.", folder, "pond", unmet=(("os", ("win32",)),))
    hidden = Read(lambda _: SkillSet((unmet,)))
    with pytest.raises(ToolError):
        await hidden.run({"path": str(file.resolve())}, context)
