"""`skerry skills`, without a gateway, and the check of `skerry doctor`."""

import json
from pathlib import Path

import pytest

from skerry.cli.main import main
from skerry.config.load import load_good
from skerry.features.skills.checks import broken_skills
from skerry.ports.checks import Level
from skerry.sdk.features import Installation


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    for name in ("SKERRY_CONFIG_PATH", "SKERRY_GATEWAY_URL"):
        monkeypatch.delenv(name, raising=False)
    tree = {"gateway": {"port": 1, "auth": {"token": "t" * 32}}}  # nothing listens at port 1
    (tmp_path / "skerry.json").write_text(json.dumps(tree), encoding="utf-8")
    return tmp_path


def write(folder: Path, more: str = "", name: str = "") -> None:
    folder.mkdir(parents=True)
    file = folder / "SKILL.md"
    file.write_text(f"---\nname: {name or folder.name}\ndescription: Counts.\n{more}---\nCount.\n")
    file.chmod(0o600)


@pytest.mark.requirement("skills-install-specs")
def test_list_info_and_check_name_source_state_and_remedy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = {
        "openclaw": {
            "requires": {"bins": ["no-such"], "env": ["POND_KEY"]},
            "install": [{"kind": "apt", "package": "pond", "bins": ["no-such"]}],
        }
    }
    write(home / "workspace" / "skills" / "frogs")
    write(home / "skills" / "frogs")
    write(home / "skills" / "toads", f"metadata: {json.dumps(needs)}\n")
    write(home / "skills" / "newts", name="a/b")
    assert main(["skills", "list"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith(("fr", "to"))] == [
        ["frogs", "workspace", "ready"],
        ["toads", "managed", "requirements"],
    ]
    assert main(["skills", "info", "Toads"]) == 0
    out = capsys.readouterr().out
    assert "install apt-0: Install pond (apt)" in out
    assert "the program no-such is missing. Install no-such." in out
    assert main(["skills", "check"]) == 1
    out = capsys.readouterr().out
    assert "Set POND_KEY in env.vars" in out
    assert "is not a valid name of a skill" in out
    assert f"{home}/skills/frogs/SKILL.md is not used" in out
    assert main(["skills", "check", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [fault["tier"] for fault in answer["faults"]] == ["managed"]
    assert main(["skills", "info", "none"]) == 2
    assert main(["skills", "list", "--agent", "nobody"]) == 1


async def test_doctor_warns_of_broken_skills_once(home: Path) -> None:
    write(home / "skills" / "good")
    write(home / "skills" / "bad", name="a/b")
    config = load_good({"SKERRY_STATE_DIR": str(home)}, fetch=False).config
    (check,) = await broken_skills(Installation(home, {}, config))
    assert check.level is Level.WARNING
    assert "is not a valid name" in check.message
    assert check.remedy
    assert await broken_skills(Installation(home, {}, None)) == []
