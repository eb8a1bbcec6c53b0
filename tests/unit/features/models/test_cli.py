"""`skerry models` as a process, with and without a gateway."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skerry.testing.model_server import StatusReply, StubModelServer
from tests.support.fake_gateway import FakeGateway

from .conftest import Command


@pytest.fixture
def alone(environ: dict[str, str]) -> dict[str, str]:
    """No gateway runs, and the key of a provider is where a gateway would find it."""
    environ |= {"SKERRY_GATEWAY_PORT": "1", "OPENAI_API_KEY": "sk-canary"}
    return environ


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00")
    return file


def written(environ: dict[str, str]) -> dict[str, object]:
    text = (Path(environ["SKERRY_STATE_DIR"]) / "skerry.json").read_text()
    tree: dict[str, object] = json.loads(text)
    return tree


async def test_a_running_gateway_says_which_model_answers(
    gateway: FakeGateway, command: Command
) -> None:
    status = await command("models", "status")
    assert status.stdout == b"The running gateway answers with: scripted/tiny\n"
    listed = await command("models", "list", "--json")
    assert json.loads(listed.stdout)[0]["ref"] == "scripted/tiny"
    assert "models.list" in [method for method, _ in gateway.requests]


async def test_that_no_model_can_answer_is_a_failure_with_what_to_do(
    gateway: FakeGateway, command: Command
) -> None:
    answer = {"state": "unavailable", "model": None, "message": "None.", "remedy": "Get one."}
    gateway.answer("models.status", answer)
    gateway.answer("models.list", {"models": []})
    for arguments in (["status"], ["list"], ["status", "--json"]):
        completed = await command("models", *arguments)
        assert completed.returncode == 1
        assert completed.stderr.splitlines()[:2] == [b"Reason: None.", b"Try: Get one."]


@pytest.mark.usefixtures("alone")
async def test_without_a_gateway_it_says_what_one_would_find(command: Command) -> None:
    completed = await command("models", "status", "--json")
    report = json.loads(completed.stdout)
    assert (report["model"]["provider"], report["gatewayRunning"]) == ("openai", False)
    assert b"canary" not in completed.stdout


async def test_a_file_is_written_and_what_comes_before_it_is_said(
    alone: dict[str, str], gguf: Path, command: Command
) -> None:
    completed = await command("models", "use", str(gguf))
    assert completed.returncode == 0
    assert completed.stdout.startswith(b"A gateway would answer with: openai/")
    assert (
        b"a provider's key in the environment and a local model server have priority over"
        in completed.stderr
    )
    assert f"skerry models use {gguf} --pin".encode() in completed.stderr
    assert written(alone)["models"] == {"embedded": {"file": str(gguf)}}


@pytest.mark.usefixtures("gateway")
async def test_a_relative_path_is_written_as_an_absolute_one(
    alone: dict[str, str], gguf: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(gguf.parent)
    await command("models", "use", gguf.name)
    assert written(alone)["models"] == {"embedded": {"file": str(gguf)}}


async def test_a_pinned_file_overrides_a_key_until_auto(
    alone: dict[str, str], gguf: Path, command: Command
) -> None:
    await command("models", "use", str(gguf), "--pin")
    assert written(alone)["agents"] == {"defaults": {"model": {"primary": "embedded/mine"}}}
    completed = await command("models", "use", "auto")
    assert completed.stdout.startswith(b"A gateway would answer with: openai/")
    assert written(alone)["agents"] == {"defaults": {"model": {}}}


async def test_a_reference_is_pinned(alone: dict[str, str], command: Command) -> None:
    completed = await command("models", "use", "openai/other")
    assert completed.stdout == b"A gateway would answer with: openai/other\n"
    assert written(alone)["agents"] == {"defaults": {"model": {"primary": "openai/other"}}}


@pytest.mark.parametrize(
    ("choice", "code", "says"),
    [
        ("opnai/x", 1, b"Did you mean openai"),
        ("groq/x", 1, b"GROQ_API_KEY"),
        ("nonsense", 2, b"not provider/model"),
        ("/nowhere/x.gguf", 1, b"No such file"),
        (__file__, 1, b"is not a GGUF file"),
    ],
)
async def test_a_choice_that_cannot_be_used_changes_nothing(
    alone: dict[str, str], command: Command, choice: str, code: int, says: bytes
) -> None:
    completed = await command("models", "use", choice)
    assert (completed.returncode, completed.stdout) == (code, b"")
    assert says in completed.stderr
    assert not Path(alone["SKERRY_STATE_DIR"]).exists()


async def test_a_running_gateway_is_told_and_uses_it_at_once(
    gateway: FakeGateway, environ: dict[str, str], command: Command
) -> None:
    model = {"provider": "openai", "id": "x", "name": "X"}
    gateway.answer("models.use", {"state": "ready", "model": model})
    for choice, pick in (
        ("openai/x", {"ref": "openai/x", "file": "", "pin": False}),
        ("auto", {"ref": "", "file": "", "pin": False}),
    ):
        completed = await command("models", "use", choice)
        assert completed.stdout == b"The running gateway answers with: openai/x\n"
        assert gateway.requests[-1] == ("models.use", pick)
    assert not (Path(environ["SKERRY_STATE_DIR"]) / "skerry.json").exists()


async def test_an_alias_stands_for_its_model(alone: dict[str, str], command: Command) -> None:
    state = Path(alone["SKERRY_STATE_DIR"])
    state.mkdir()
    listed = {"openai/gpt-5.4-mini": {}, "openai/other": {"alias": "Mine"}}
    (state / "skerry.json").write_text(json.dumps({"agents": {"defaults": {"models": listed}}}))
    for alias, ref in (("mine", b"openai/other"), ("gpt-mini", b"openai/gpt-5.4-mini")):
        completed = await command("models", "use", alias)
        assert completed.stdout == b"A gateway would answer with: %b\n" % ref
    refused = await command("models", "use", "openai/third")
    assert b"is not allowed" in refused.stderr
    assert refused.returncode == 1


@pytest.mark.usefixtures("alone")
async def test_the_catalogue_is_listed_with_what_each_model_needs(command: Command) -> None:
    completed = await command(
        "models", "list", "--all", "--offline", "--provider", "anthropic", "--json"
    )
    rows = json.loads(completed.stdout)
    assert {row["provider"] for row in rows} == {"anthropic"}
    assert {row["note"] for row in rows} == {"Needs ANTHROPIC_API_KEY."}
    sonnet = next(row for row in rows if row["id"] == "claude-sonnet-5-5")
    assert (sonnet["contextWindow"], sonnet["cost"]["output"]) == (1_000_000, 10)
    shown = await command("models", "list", "--offline", "--provider", "openai")
    assert b"openai/gpt-5.4-mini" in shown.stdout


@pytest.fixture
async def stub(alone: dict[str, str]) -> AsyncIterator[StubModelServer]:
    """A model server that the configuration names as `den`."""
    state = Path(alone["SKERRY_STATE_DIR"])
    state.mkdir()
    async with StubModelServer([["ready"], [StatusReply(401)]]) as stub:
        cost = {"input": 1000, "output": 1000}
        den = {"baseUrl": stub.base_url, "models": [{"id": "m", "cost": cost}]}
        (state / "skerry.json").write_text(json.dumps({"models": {"providers": {"den": den}}}))
        yield stub


@pytest.mark.usefixtures("stub")
async def test_a_model_is_tried_and_its_failure_named(command: Command) -> None:
    completed = await command("models", "test", "den/m", "--json")
    tried = json.loads(completed.stdout)
    assert (completed.returncode, tried["ok"], tried["model"]) == (0, True, "den/m")
    assert tried["usage"]["cost"]["total"] == pytest.approx((8 + 3) / 1000)
    failed = await command("models", "test", "den/m", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["error"]["code"] == "model.auth"
    assert b"Try:" in failed.stderr


@pytest.mark.usefixtures("stub")
async def test_a_tried_model_says_how_fast_it_was(command: Command) -> None:
    completed = await command("models", "test", "den/m")
    assert completed.stdout.startswith(b"den/m answers.\nfirst token after ")


async def test_a_server_that_was_found_is_named_and_confirmed_through_the_gateway(
    gateway: FakeGateway, command: Command
) -> None:
    offer = {"id": "ollama", "name": "Ollama", "address": "127.0.0.1:11434", "owner": "ada"}
    status = {"state": "ready", "model": None, "offers": [offer | {"before": ""}]}
    gateway.answer("models.status", status)
    completed = await command("models", "list")
    words = (
        b"Ollama answers on 127.0.0.1:11434 (run by user ada). Use it? skerry models trust ollama"
    )
    assert words in completed.stderr
    assert words in (await command("models", "status")).stderr
    gateway.answer("models.trust", {"state": "ready", "model": None, "offers": []})
    completed = await command("models", "trust", "ollama")
    assert completed.stdout.startswith(b"ollama is used from now on.\n")
    assert ("models.trust", {"server": "ollama", "trusted": True}) in gateway.requests
    await command("models", "trust", "ollama", "--withdraw")
    assert ("models.trust", {"server": "ollama", "trusted": False}) in gateway.requests


@pytest.mark.usefixtures("alone")
async def test_a_server_that_there_is_not_cannot_be_confirmed(command: Command) -> None:
    completed = await command("models", "trust", "far")
    assert completed.returncode == 1
    assert b"Unknown local server 'far'" in completed.stderr
    assert b"ollama, lmstudio, llamacpp" in completed.stderr


@pytest.mark.usefixtures("stub")
async def test_the_list_has_what_the_provider_says_it_has(
    alone: dict[str, str], command: Command
) -> None:
    del alone["OPENAI_API_KEY"]
    state = Path(alone["SKERRY_STATE_DIR"])
    async with StubModelServer() as server:
        server.models = [
            {"id": "wide", "context_window": 65_536, "capabilities": {"vision": True}},
            {"id": "text-embedding-3"},
        ]
        lab = {"baseUrl": server.base_url}
        file = state / "skerry.json"
        file.write_text(json.dumps({"models": {"mode": "replace", "providers": {"lab": lab}}}))
        listed = json.loads((await command("models", "list", "--json")).stdout)
        wide = next(row for row in listed if row["ref"] == "lab/wide")
        assert (wide["contextWindow"], wide["input"]) == (65_536, ["image", "text"])
        assert not any("embed" in row["id"] for row in listed)
        shown = (await command("models", "list")).stdout.decode()
        (line,) = [line for line in shown.splitlines() if line.startswith("lab/wide")]
        assert line.split()[:4] == ["lab/wide", "wide", "65536", "yes"]
        count = len(server.requests)
        assert b"lab/wide" not in (await command("models", "list", "--offline")).stdout
        assert len(server.requests) == count
    away = await command("models", "list")
    assert b"Cannot ask lab at 127.0.0.1 for its models" in away.stderr
    assert b"The list has its known models." in away.stderr
