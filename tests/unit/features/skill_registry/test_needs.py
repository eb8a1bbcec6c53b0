"""The command lines that install the programs of a skill, and downloads of programs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main
from skerry.features.skill_registry import cli_setup
from skerry.features.skill_registry.downloads import fetched, put
from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.needs import InstallPlan, chosen, plan_of, plans_of
from skerry.model.skill import InstallSpec
from skerry.net.safe_fetch import SafeClient
from skerry.policy.network import NetworkRules
from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from skerry.testing.skill_registry import zipped

URL = "https://example.com/tool-1.0.zip"


def planned(kind: str, package: str = "", **more: Any) -> InstallPlan:
    spec = InstallSpec(kind, kind, package=package, **more)
    return plan_of(spec, is_root=False, which=lambda _: "/bin/x")


@pytest.mark.requirement("skills-install-specs")
@pytest.mark.parametrize(
    ("kind", "package", "command"),
    [
        ("brew", "steipete/tap/gog", "brew install steipete/tap/gog"),
        (
            "apt",
            "libfoo2.0-dev",
            "sudo apt-get install --yes --no-install-recommends libfoo2.0-dev",
        ),
        ("node", "@scope/tool@1.2.3", "npm install --global --ignore-scripts @scope/tool@1.2.3"),
        ("go", "github.com/a/b/cmd/c", "go install github.com/a/b/cmd/c@latest"),
        ("go", "github.com/a/b@v1.2.3", "go install github.com/a/b@v1.2.3"),
        ("uv", "tool[extra]==1.0", "uv tool install tool[extra]==1.0"),
    ],
)
def test_each_kind_has_its_command(kind: str, package: str, command: str) -> None:
    assert planned(kind, package).command == tuple(command.split())


def test_root_needs_no_sudo() -> None:
    spec = InstallSpec("apt", "apt", package="jq")
    assert plan_of(spec, is_root=True).command[0] == "apt-get"


@pytest.mark.abuse(83)
@pytest.mark.requirement("skills-install-specs")
@pytest.mark.parametrize("kind", ["brew", "apt", "node", "go", "uv"])
@pytest.mark.parametrize(
    "package",
    [
        "",
        "-o",
        "--index-url=https://evil.example",
        "jq; curl evil.example",
        "jq evil",
        "$(id)",
        "jq\n--yes",
        "../jq",
        "/srv/evil.deb",
        "./evil",
        "https://evil.example/x.tgz",
        "git+ssh://evil.example/x",
        "file:evil",
        "a/../../b",
        "пакет",
    ],
)
def test_a_name_that_is_an_option_an_address_or_a_path_is_refused(kind: str, package: str) -> None:
    with pytest.raises(SkillError, match="is not the name of a package"):
        planned(kind, package)


@pytest.mark.parametrize(
    "values",
    [
        {"url": "http://example.com/tool"},
        {"url": "file:///etc/passwd"},
        {"url": "https://user@example.com/tool"},
        {"url": "https://example.com/"},
        {"url": "https://example.com/.."},
        {"url": URL, "sha256": "123"},
        {"url": "https://example.com/tool", "bins": ("../../x",)},
    ],
)
def test_a_download_with_an_unsafe_address_name_or_hash_is_refused(values: Any) -> None:
    with pytest.raises(SkillError, match="is not a"):
        planned("download", **values)


def test_the_first_usable_way_is_chosen_or_the_named_one() -> None:
    specs = [
        InstallSpec("brew", "brew", package="jq"),
        InstallSpec("apt", "apt", package="jq"),
        InstallSpec("uv", "uv", package="jq", os=("amiga",)),
    ]
    plans = plans_of(specs, is_root=True, which=lambda name: None if name == "brew" else name)
    assert [plan.missing for plan in plans] == ["brew", ""]
    assert chosen(plans, None).spec.id == "apt"
    assert chosen(plans, "brew").spec.id == "brew"
    for option, rest in (("uv", plans), (None, plans[:1]), (None, [])):
        with pytest.raises(SkillError):
            chosen(rest, option)
    with pytest.raises(SkillError, match="Unknown way"):
        planned("curl", "jq")


def test_an_archive_is_unpacked_below_its_first_folders(tmp_path: Path) -> None:
    data = zipped({"tool-1/bin/tool": b"#!", "tool-1/README": b"x", "top": b"y"})
    sha256 = hashlib.sha256(data).hexdigest()
    plan = planned("download", url=URL, bins=("tool",), strip_components=1, sha256=sha256)
    downloaded = put(data, plan, tmp_path / "tools/demo")
    assert (downloaded.sha256, downloaded.programs) == (sha256, (tmp_path / "tools/demo/bin/tool",))
    assert {path.name for path in (tmp_path / "tools/demo").rglob("*")} == {"bin", "tool", "README"}
    assert (tmp_path / "tools/demo/bin/tool").stat().st_mode & 0o777 == 0o700
    with pytest.raises(SkillError, match="SHA-256"):
        put(data + b"x", plan, tmp_path / "tools/demo")
    with pytest.raises(SkillError, match="refused"):
        put(zipped({"../x": b""}), planned("download", url=URL), tmp_path / "tools/demo")
    assert (tmp_path / "tools/demo/bin/tool").read_bytes() == b"#!"
    assert [path.name for path in (tmp_path / "tools").iterdir()] == ["demo"]


def test_a_single_program_gets_its_name(tmp_path: Path) -> None:
    plan = planned("download", url="https://example.com/v1/tool-linux-x64", bins=("tool",))
    assert put(b"\x7fELF", plan, tmp_path / "demo").programs == (tmp_path / "demo/tool",)


@pytest.mark.anyio
async def test_a_download_may_be_larger_than_a_page_and_fails_as_a_whole() -> None:
    async def handle(request: ServedRequest) -> ServedResponse:
        return ServedResponse(b"x" * 11_000_000, status=200 if request.path == "/big" else 404)

    async with serve(handle) as url:
        rules = NetworkRules(allowed_hosts=frozenset({("127.0.0.1", int(url.rpartition(":")[2]))}))
        async with SafeClient(rules, max_bytes=20_000_000) as http:
            assert len(await fetched(http, f"{url}/big")) == 11_000_000
            with pytest.raises(SkillError, match="404"):
                await fetched(http, f"{url}/none")
        async with SafeClient(rules) as http:
            with pytest.raises(SkillError, match="more than 10485760 bytes"):
                await fetched(http, f"{url}/big")


SKILL = """---
name: demo
description: Shows a requirement.
metadata: {"openclaw": {"requires": {"bins": ["no-such-program"]}, "install": %s}}
---
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    folder = tmp_path / "skills/demo"
    folder.mkdir(parents=True)
    options = [
        {"kind": "uv", "package": "demo-tool", "bins": ["no-such-program"]},
        {"kind": "node", "package": "--global", "os": ["amiga"]},
    ]
    (folder / "SKILL.md").write_text(SKILL % json.dumps(options))
    (folder / "SKILL.md").chmod(0o600)
    return tmp_path


@pytest.mark.requirement("skills-install-specs")
@pytest.mark.usefixtures("state")
def test_the_command_is_shown_asked_for_and_run_without_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    commands: list[tuple[str, ...]] = []
    program = tmp_path / "bin/uv"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def run(command: tuple[str, ...], *, silent: bool) -> int:
        assert not silent
        commands.append(command)
        (program.parent / "no-such-program").write_text("#!/bin/sh\n")
        (program.parent / "no-such-program").chmod(0o700)
        return 0

    monkeypatch.setattr(cli_setup, "hand_over", run)
    assert main(["skills", "setup", "demo", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["missing"] == ["no-such-program"]
    assert [row["command"] for row in listed["options"]] == [["uv", "tool", "install", "demo-tool"]]
    assert main(["skills", "setup", "demo"]) == 2
    printed = capsys.readouterr().err
    assert "  uv tool install demo-tool" in printed
    assert "stdin is not a terminal" in printed
    assert commands == []
    assert main(["skills", "setup", "demo", "--yes"]) == 0
    assert commands == [("uv", "tool", "install", "demo-tool")]
    assert "Its programs are installed now." in capsys.readouterr().out
    assert main(["skills", "setup", "demo", "--yes"]) == 0
    assert "Its programs are installed." in capsys.readouterr().out


@pytest.mark.usefixtures("state")
def test_an_unknown_skill_has_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skills", "setup", "nothing"]) == 1
    assert "There is no skill 'nothing'" in capsys.readouterr().err
