"""`skerry config` as a process: with a gateway beside it and without."""

import json
from pathlib import Path

import pytest

from skerry.config.gateway import LOCK
from skerry.infra.lock import locked
from tests.support.fake_gateway import FakeGateway

from .conftest import Command

USES = "The running gateway uses it."
KEY = "sk-canary-1234567890"


@pytest.fixture
def file(environ: dict[str, str]) -> Path:
    file = Path(environ["SKERRY_STATE_DIR"]) / "skerry.json"
    file.parent.mkdir(mode=0o700)
    tree = {"models": {"providers": {"own": {"baseUrl": "http://h/v1", "apiKey": KEY}}}}
    file.write_text(json.dumps(tree))
    file.chmod(0o600)
    return file


async def test_a_value_is_set_got_and_removed(command: Command, file: Path) -> None:
    completed = await command("config", "set", "agents.defaults.timeoutSeconds", "30")
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert b"Changed agents.defaults.timeoutSeconds in " in completed.stdout
    got = await command("config", "get", "agents.defaults.timeoutSeconds")
    assert json.loads(got.stdout) == 30
    gone = await command("config", "unset", "agents.defaults.timeoutSeconds", "--json")
    assert json.loads(gone.stdout) == {"ok": True, "path": "agents.defaults.timeoutSeconds"}
    assert "timeoutSeconds" not in file.read_text()


@pytest.mark.parametrize(
    ("text", "value"),
    [("openai/gpt", "openai/gpt"), ("'a b'", "a b"), ("{primary: 'a/b',}", {"primary": "a/b"})],
)
async def test_a_value_is_json5_and_else_a_text(
    command: Command, file: Path, text: str, value: object
) -> None:
    assert (await command("config", "set", "agents.defaults.model", text)).returncode == 0
    assert json.loads(file.read_text())["agents"]["defaults"]["model"] == value


async def test_a_value_may_come_from_stdin(command: Command, file: Path) -> None:
    place = "models.providers.own.apiKey"
    assert (await command("config", "set", place, "-", stdin=b"new-key\n")).returncode == 0
    own = json.loads(file.read_text())["models"]["providers"]["own"]
    assert own["apiKey"] == "new-key"


async def test_a_wrong_value_a_wrong_place_and_no_json_are_refused(
    command: Command, file: Path
) -> None:
    before = file.read_text()
    for arguments, code, said in (
        (("set", "gateway.port", "70000"), 1, b"Nothing was changed. gateway.port: "),
        (("set", "models.providers.new.apiKey", "k"), 1, b"Nothing was changed. models.provid"),
        (("set", "a..b", "1"), 1, b"not a key path"),
        (("set", "gateway.port", "nope", "--json"), 2, b"not JSON"),
        (("set", "gateway.port", "null"), 2, b"config unset gateway.port"),
        (("get", "gateway.nope"), 1, b"The configuration has no value gateway.nope."),
        (("validate", "/nowhere"), 1, b"does not exist"),
    ):
        completed = await command("config", *arguments)
        assert (completed.returncode, said in completed.stderr) == (code, True), completed.stderr
    assert file.read_text() == before


async def test_a_key_that_nothing_reads_is_set_and_warned_about(
    command: Command, file: Path
) -> None:
    completed = await command("config", "set", "agents.defautls.timeoutSeconds", "30")
    said = b"warning: agents.defautls: unknown to this version; it has no effect."
    assert (completed.returncode, said in completed.stderr) == (0, True)
    assert "defautls" in file.read_text()


async def test_secrets_are_hidden_unless_they_are_asked_for(command: Command, file: Path) -> None:
    assert file.exists()
    hidden = await command("config", "get", "models.providers")
    assert KEY.encode() not in hidden.stdout
    shown = await command("config", "get", "models.providers.own.apiKey", "--reveal")
    assert shown.stdout.decode().strip() == KEY


async def test_a_file_is_checked_and_all_that_is_wrong_is_named(
    command: Command, file: Path, tmp_path: Path
) -> None:
    good = await command("config", "validate")
    assert (good.returncode, good.stdout.decode()) == (0, f"{file} is valid.\n")
    other = tmp_path / "other.json"
    other.write_text('{"gateway": {"prot": 1, "drainSeconds": -1}}')
    bad = await command("config", "validate", str(other), "--json")
    assert bad.returncode == 1
    assert {issue["path"] for issue in json.loads(bad.stdout)["issues"]} == {
        "gateway.prot",
        "gateway.drainSeconds",
    }


async def test_a_file_that_is_not_there_is_not_called_valid(command: Command, file: Path) -> None:
    file.unlink()
    completed = await command("config", "validate")
    text = f"{file} does not exist; the defaults apply.\n"
    assert (completed.returncode, completed.stdout.decode()) == (0, text)


async def test_the_schema_and_the_path_are_printed(command: Command, file: Path) -> None:
    schema = json.loads((await command("config", "schema")).stdout)
    assert schema["properties"]["gateway"]["description"]
    assert (await command("config", "path")).stdout.decode() == f"{file}\n"


def editor(environ: dict[str, str], text: str) -> None:
    """Lets the editor write `text` into the file it is given."""
    script = Path(environ["HOME"]) / "editor.sh"
    (script.parent / "text").write_text(text)
    script.write_text(f'#!/bin/sh\ncp "{script.parent / "text"}" "$1"\n')
    script.chmod(0o700)
    environ["EDITOR"] = str(script)


async def test_an_edit_counts_once_it_is_valid_and_is_kept_aside_until_then(
    command: Command, environ: dict[str, str], file: Path
) -> None:
    before = file.read_text()
    editor(environ, "// mine\n{gateway: {prot: 1}}\n")
    bad = await command("config", "edit")
    aside = file.with_name("skerry.json.rejected")
    assert (bad.returncode, file.read_text()) == (1, before)
    assert aside.read_text() == "// mine\n{gateway: {prot: 1}}\n"
    assert str(aside).encode() in bad.stderr
    editor(environ, "// mine\n{gateway: {port: 1}}\n")
    good = await command("config", "edit")
    assert (good.returncode, file.read_text()) == (0, "// mine\n{gateway: {port: 1}}\n")
    assert not aside.exists()


async def test_an_edit_that_changes_nothing_says_so(
    command: Command, environ: dict[str, str], file: Path
) -> None:
    editor(environ, file.read_text())
    completed = await command("config", "edit")
    assert (completed.returncode, completed.stderr) == (0, b"Nothing changed.\n")
    environ["EDITOR"] = "/nowhere/editor"
    assert b"cannot be started" in (await command("config", "edit")).stderr
    assert [path.name for path in file.parent.iterdir() if "rejected" in path.name] == []


@pytest.mark.parametrize(
    ("key", "answer", "lines"),
    [
        (
            "agents.defaults.timeoutSeconds",
            {"restart": "automatic", "pendingPaths": ["gateway.port"]},
            [USES, "The running gateway restarts for gateway.port once no run is in progress."],
        ),
        (
            "agents.defaults.timeoutSeconds",
            {"restart": "needed"},
            [USES, "The running gateway needs a restart for earlier changes."],
        ),
        (
            "gateway.tickIntervalMs",
            {"restart": "needed", "pendingPaths": ["gateway.port", "gateway.tickIntervalMs"]},
            ["The running gateway needs a restart for gateway.tickIntervalMs."],
        ),
        ("gateway.tickIntervalMs", {"restart": "none", "pendingPaths": []}, [USES]),
    ],
)
async def test_a_change_prints_the_keys_for_which_the_gateway_restarts(
    gateway: FakeGateway,
    command: Command,
    file: Path,
    key: str,
    answer: dict[str, object],
    lines: list[str],
) -> None:
    gateway.answer("config.apply", answer)
    with locked(file.parent / LOCK):
        completed = await command("config", "set", key, "5000")
    assert completed.stderr.decode().splitlines() == lines


async def test_a_whole_number_is_printed_as_one(command: Command) -> None:
    assert (await command("config", "get", "agents.defaults.timeoutSeconds")).stdout == b"600\n"
