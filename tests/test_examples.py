"""Every example in the README and the guides is run, or checked, or says why it cannot be."""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import anyio
import msgspec
import pytest

from scripts.requirements import ROOT
from skerry.cli.main import main
from skerry.config import source
from skerry.config.load import checked
from skerry.config.write import ConfigAuthor, set_values
from skerry.gateway.dispatch import MethodTable
from skerry.gateway.frames import RequestFrame, parse
from skerry.gateway.handshake import ConnectParams
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.support.shim import forking_skerry

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
FENCE = re.compile(r"^ *```(.*?)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELL_SECONDS = 60
_STEADY = {"gateway": {"reload": {"mode": "hot"}}}
"""A restart by itself would come between two commands."""
NOT_RUN = re.compile(r'not-run="[^"]{10,}"')
FORMS = {
    "sh": "a shell runs it against a gateway",
    "json5": "a configuration",
    "json frame": "a request",
    "json models": "a file of models",
    "text": "not an example",
}


@dataclass(frozen=True)
class Block:
    """One fenced block: its form, whether it is run, and its text."""

    page: Path
    form: str
    runs: bool
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for info, text in FENCE.findall(page.read_text(encoding="utf-8")):
        form, runs = NOT_RUN.sub("", info).strip(), NOT_RUN.search(info) is None
        yield Block(page, form, runs, dedent(text))


BLOCKS = [block for page in PAGES for block in blocks(page)]


def of(form: str) -> list[Block]:
    return [block for block in BLOCKS if block.form == form and block.runs]


def name(block: Block) -> str:
    return f"{block.page.stem}-{BLOCKS.index(block)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_every_block_says_what_it_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {block.form for block in blocks(page)} <= FORMS.keys()
    prose = FENCE.sub("", text)
    assert "```" not in prose
    assert re.findall(r"^\n {4}(?![-*\d]).*$", prose, re.MULTILINE) == [], "use a fenced block"


@pytest.mark.parametrize("block", of("json5"), ids=name)
def test_a_configuration_in_the_guide_is_valid(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "skerry.json"
    path.write_text(block.text)
    path.chmod(0o600)
    for included in re.findall(r"\./(\w+\.json5)", block.text):
        (tmp_path / included).write_text("{}")
    names = re.findall(r"(?<!\$)\$\{(\w+)\}", block.text)
    names += re.findall(r'source: "env", id: "(\w+)"', block.text)
    environ = {"HOME": str(tmp_path)} | dict.fromkeys(names, "value")
    loaded = checked(source.read(path), environ, tmp_path)
    assert [str(warning) for warning in loaded.warnings] == []


@pytest.mark.parametrize("block", of("json5"), ids=name)
def test_a_command_changes_a_configuration_of_the_guide_and_keeps_its_comments(
    block: Block, tmp_path: Path
) -> None:
    path = tmp_path / "skerry.json"
    path.write_text(block.text)
    for included in re.findall(r"\./(\w+\.json5)", block.text):
        (tmp_path / included).write_text("{}")
    names = re.findall(r"(?<!\$)\$\{(\w+)\}", block.text)
    names += re.findall(r'source: "env", id: "(\w+)"', block.text)
    author = ConfigAuthor(environ={"HOME": str(tmp_path)} | dict.fromkeys(names, "value"))
    before = source.read(path).parsed
    set_values(path, {"gateway.port": 19_999, "gateway.auth.token": "t" * 32}, author=author)
    after = source.read(path)
    assert after.parsed["gateway"] == before.get("gateway", {}) | after.parsed["gateway"]
    assert (after.parsed["gateway"]["port"], len(after.parsed["gateway"]["auth"]["token"])) == (
        19_999,
        32,
    )
    lines = [line.strip() for line in block.text.splitlines() if line.strip().startswith("//")]
    assert [line for line in lines if line not in after.raw] == []
    set_values(path, {"gateway": None, "meta": None}, author=author)
    left = source.read(path).parsed
    left.pop("meta")
    assert left == {key: value for key, value in before.items() if key != "gateway"}


BARE = re.compile(r"(?<![\w\"'/])[A-Za-z_]\w*(?=: )")


@pytest.mark.parametrize(
    "page", sorted({block.page for block in of("json5")}), ids=lambda one: one.stem
)
def test_config_set_changes_nothing_else_in_the_examples_of_a_guide(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "skerry.json"
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("SKERRY_GATEWAY_PORT", "1")
    for block in (block for block in of("json5") if block.page == page):
        for known in re.findall(r"(?<!\$)\$\{(\w+)\}", block.text):
            monkeypatch.setenv(known, "value")
        for known in re.findall(r'source: "env", id: "(\w+)"', block.text):
            monkeypatch.setenv(known, "value")
        for included in re.findall(r"\./(\w+\.json5)", block.text):
            (tmp_path / included).write_text("{}")
        text = "// mine\n" + block.text.rstrip().removesuffix("}") + "  // the end\n}\n"
        path.write_text(text)
        path.chmod(0o600)
        assert main(["config", "set", "agents.defaults.timeoutSeconds", "120"]) == 0
        raw = path.read_text()
        assert source.read(path).parsed["agents"]["defaults"]["timeoutSeconds"] == 120
        kept = BARE.findall(raw)
        assert [one for one in BARE.findall(text) if one not in kept] == []
        rest = iter(raw)
        before = re.sub(r"(?<=timeoutSeconds: )[\d_]+", "", text)
        assert all(one in rest for one in before), raw  # only something was put between


@pytest.mark.parametrize("block", of("json models"), ids=name)
def test_a_file_of_models_in_the_guide_is_read(block: Block) -> None:
    assert list(json.loads(block.text)) == ["providers"]


@pytest.mark.parametrize("block", of("json frame"), ids=name)
def test_a_request_in_the_guide_is_one(block: Block) -> None:
    frame = parse(block.text)
    assert isinstance(frame, RequestFrame)
    methods = {method.name: method.params for method in MethodTable().methods} | {
        "connect": ConnectParams
    }
    methods[frame.method].model_validate_json(bytes(frame.params))


@pytest.mark.parametrize(
    "page", sorted({block.page for block in of("sh")}), ids=lambda one: one.stem
)
async def test_the_commands_of_a_page_work_one_after_another(page: Path, tmp_path: Path) -> None:
    home = tmp_path / ".skerry"
    async with (
        StubModelServer() as model,
        running_gateway(home=home, model=model.base_url, config=_plugins(home) | _STEADY),
        forking_skerry(tmp_path / "bin") as programs,
    ):
        (home / "workspace" / "notes.md").write_text("Buy tea.")
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / ".venv").symlink_to(Path(sys.executable).parent.parent)
        for block in of("sh"):
            if block.page == page:
                await _run(block.text, tmp_path, programs)


def _plugins(home: Path) -> dict[str, object]:
    """Puts the example of a plugin where the guide says, and returns the section that names it."""
    folder = home / "plugins"
    folder.mkdir(mode=0o700, parents=True)
    example = ROOT / "docs" / "examples" / "plugins" / "kitchen.py"
    (folder / "kitchen.py").write_bytes(example.read_bytes())
    (folder / "kitchen.py").chmod(0o600)
    return {"plugins": {"load": {"paths": ["plugins/kitchen.py"]}}}


async def _run(text: str, folder: Path, programs: Path) -> None:
    """Runs the lines in a shell whose home has the gateway's state, as a person's has."""
    path = os.environ["PATH"]
    environ = {
        "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), path)),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "EDITOR": "true",
    }
    work = folder / "work"
    with anyio.fail_after(SHELL_SECONDS):
        completed = await anyio.run_process(
            ["bash", "-euo", "pipefail", "-c", text], check=False, env=environ, cwd=work
        )
    said = (completed.stdout + completed.stderr).decode()
    assert completed.returncode == 0, f"{text}\n{said}"


def test_the_examples_are_many_enough_to_be_found() -> None:
    counts = {form: len(of(form)) for form in FORMS}
    assert min(counts["sh"], counts["json5"]) >= 8, msgspec.json.encode(counts)
