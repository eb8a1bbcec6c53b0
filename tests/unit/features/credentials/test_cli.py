"""`skerry auth` as a process: no secret on the command line or in its output."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest

from skerry.infra.http import HttpClient
from skerry.testing.model_server import StatusReply, StubModelServer
from tests.support.fake_gateway import FakeGateway
from tests.support.oauth_server import StubOAuthServer

from .conftest import Command

SECRET = b"sk-canary-4242"


@pytest.fixture
def state(environ: dict[str, str]) -> Path:
    return Path(environ["SKERRY_STATE_DIR"])


def on_disk(state: Path) -> bytes:
    return b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())


async def test_without_profiles_the_list_says_how_to_get_one(command: Command) -> None:
    completed = await command("auth", "list")
    assert (completed.returncode, b"skerry auth add PROVIDER" in completed.stdout) == (0, True)


async def test_a_key_comes_through_a_pipe_into_the_vault(command: Command, state: Path) -> None:
    completed = await command("auth", "add", "openai", "--no-test", stdin=SECRET + b"\n")
    assert completed.stdout.startswith(b"openai:default is stored (vault).")
    assert SECRET not in completed.stdout + completed.stderr + on_disk(state)
    listed = json.loads((await command("auth", "list", "--json")).stdout)
    (row,) = listed["profiles"]
    assert (row["id"], row["secretIn"], row["state"]) == ("openai:default", "vault", "ready")


async def test_a_key_can_be_a_name_in_the_environment(
    command: Command, environ: dict[str, str]
) -> None:
    environ["MY_KEY"] = SECRET.decode()
    await command("auth", "add", "groq", "--no-test", "--name", "work", "--env", "MY_KEY")
    listed = await command("auth", "list")
    assert b"groq:work" in listed.stdout
    assert b"environment" in listed.stdout
    del environ["MY_KEY"]
    assert b"needs MY_KEY" in (await command("auth", "list")).stdout


def lab(state: Path, base_url: str, *models: str) -> None:
    """Describes a provider `lab` of these models."""
    state.mkdir(mode=0o700, exist_ok=True)
    listed = [{"id": model} for model in models]
    content = {"models": {"providers": {"lab": {"baseUrl": base_url, "models": listed}}}}
    (state / "skerry.json").write_text(json.dumps(content))
    (state / "skerry.json").chmod(0o600)


async def test_a_key_is_tried_before_it_is_kept(command: Command, state: Path) -> None:
    async with StubModelServer() as server:
        lab(state, server.base_url, "small", "large")
        completed = await command("auth", "add", "lab", "--json", stdin=SECRET)
        report = json.loads(completed.stdout)
        await command("auth", "add", "lab", "--model", "large", stdin=SECRET)
        assert [request.body["model"] for request in server.requests] == ["small", "large"]
        keys = {request.headers["authorization"] for request in server.requests}
    assert (report["kept"], report["tried"], report["latencyMs"] >= 0) == (
        "lab:default",
        True,
        True,
    )
    assert keys == {f"Bearer {SECRET.decode()}"}


async def test_a_wrong_key_is_named_and_not_kept(command: Command, state: Path) -> None:
    async with StubModelServer(lambda _: [StatusReply(401)]) as server:
        lab(state, server.base_url, "small")
        refused = await command("auth", "add", "lab", stdin=SECRET)
        assert refused.returncode == 1
        assert b"lab refused the key (401)" in refused.stderr
        assert b"Nothing was saved. Pass --no-test to store it without a trial." in refused.stderr
        scripted = await command("auth", "add", "lab", "--json", stdin=SECRET)
        assert json.loads(scripted.stdout)["error"]["code"] == "model.auth"
        assert json.loads((await command("auth", "list", "--json")).stdout)["profiles"] == []
        assert not (state / "credentials").exists()
        count = len(server.requests)
        kept = await command("auth", "add", "lab", "--no-test", "--json", stdin=SECRET)
        assert json.loads(kept.stdout) == {
            "kept": "lab:default",
            "secretIn": "vault",
            "tried": False,
        }
        assert len(server.requests) == count


async def test_a_key_replaces_one_of_its_name_only_when_it_answers(
    command: Command, state: Path
) -> None:
    async with StubModelServer([["ready"], [StatusReply(403)]]) as server:
        lab(state, server.base_url, "small")
        await command("auth", "add", "lab", "--plain", stdin=b"sk-right")
        assert (await command("auth", "add", "lab", "--plain", stdin=b"sk-wrong")).returncode == 1
    disk = on_disk(state)
    assert (b"sk-right" in disk, b"sk-wrong" in disk) == (True, False)


async def test_a_key_is_tried_with_a_model_that_the_provider_names(
    command: Command, state: Path
) -> None:
    async with StubModelServer() as server:
        server.models = [{"id": "embed-1"}, {"id": "small"}, {"id": "large"}]
        lab(state, server.base_url)
        completed = await command("auth", "add", "lab", "--json", stdin=SECRET)
        assert (json.loads(completed.stdout)["tried"], b"lab/small" in completed.stderr) == (
            True,
            True,
        )
        assert [request.body.get("model") for request in server.requests] == [None, "small"]
        keys = {request.headers["authorization"] for request in server.requests}
    assert keys == {f"Bearer {SECRET.decode()}"}


async def test_a_key_that_the_list_of_models_refuses_is_not_kept(
    command: Command, state: Path
) -> None:
    async with StubModelServer(lambda _: [StatusReply(401)]) as server:
        lab(state, server.base_url)
        refused = await command("auth", "add", "lab", stdin=SECRET)
        assert (refused.returncode, b"lab refused the key (401)" in refused.stderr) == (1, True)
    away = await command("auth", "add", "lab", stdin=SECRET)
    assert (away.returncode, b"Cannot ask lab" in away.stderr) == (1, True)
    assert b"Nothing was saved. Pass --no-test to store it without" in away.stderr
    assert json.loads((await command("auth", "list", "--json")).stdout)["profiles"] == []


async def test_a_key_that_cannot_be_tried_here_is_kept_with_a_word(
    command: Command, state: Path
) -> None:
    async with StubModelServer() as server:
        server.models = []
        lab(state, server.base_url)
        completed = await command("auth", "add", "lab", stdin=SECRET)
    assert (completed.returncode, b"auth add lab --model MODEL" in completed.stderr) == (0, True)
    completed = await command("auth", "add", "lab", "--name", "b", "--env", "ABSENT")
    assert (completed.returncode, b"needs ABSENT" in completed.stderr) == (0, True)


async def test_a_profile_is_removed_from_the_vault_too(command: Command, state: Path) -> None:
    await command("auth", "add", "openai", "--no-test", stdin=SECRET)
    assert (await command("auth", "remove", "openai:default")).returncode == 0
    assert json.loads((state / "credentials" / "openai.json").read_bytes())["secrets"] == {}
    again = await command("auth", "remove", "openai:default")
    assert (again.returncode, b"Profiles: none" in again.stderr) == (1, True)


async def test_the_order_is_given_and_taken_away(command: Command) -> None:
    for name in ("one", "two"):
        await command("auth", "add", "openai", "--no-test", "--name", name, "--plain", stdin=SECRET)
    completed = await command("auth", "order", "openai", "two", "openai:one")
    assert completed.stdout == b"openai:two, openai:one\n"
    assert (await command("auth", "order", "openai")).stdout == completed.stdout
    assert b"The profiles alternate" in (await command("auth", "order", "openai", "--clear")).stdout
    assert (await command("auth", "order", "openai", "three")).returncode == 1


async def test_what_makes_no_sense_is_refused(command: Command) -> None:
    for arguments, said in (
        (("add", "nobody"), b"Unknown provider"),
        (("add", "openai"), b"No secret was entered"),
        (("add", "openai", "--name", "a b"), b"Invalid profile id"),
        (("list", "--agent", "ghost"), b"No agent"),
        (("login", "openai"), b"No sign-in is known"),
    ):
        stdin = b"" if said == b"No secret was entered" else SECRET
        completed = await command("auth", *arguments, stdin=stdin)
        assert completed.returncode != 0
        assert said in completed.stderr


async def test_a_cooling_credential_is_shown_with_its_reason(
    gateway: FakeGateway, command: Command
) -> None:
    await command("auth", "add", "openai", "--no-test", stdin=SECRET)
    resting = [
        {
            "profile": "main/openai:default",
            "model": "openai/gpt",
            "reason": "rate_limit",
            "until": 1_900_000_000_000,
        }
    ]
    answer: dict[str, Any] = {"state": "ready", "model": None, "resting": resting}
    gateway.answer("models.status", answer)
    assert b"cools down for openai/gpt: rate_limit" in (await command("auth", "list")).stdout
    assert b"skipped until 2030-" in (await command("models", "status")).stdout


@pytest.mark.requirement("auth-oauth-login-command")
async def test_a_person_signs_in_with_the_browser(environ: dict[str, str], state: Path) -> None:
    async with StubOAuthServer() as server, HttpClient() as http:
        describe(state, server)
        words = [sys.executable, "-m", "skerry", "auth", "login", "mine", "--json"]
        with anyio.fail_after(60):
            async with await anyio.open_process(words, env=environ, stdin=-3) as process:
                url = await address(process)
                page = await http.send(httpx2.Request("GET", server.approve(url)))
                assert page.status_code == 200
                assert await process.wait() == 0
        disk = on_disk(state)
        assert not any(token.encode() in disk for token in server.access)
    profiles = state / "agents" / "main" / "agent" / "auth-profiles.json"
    (kept,) = json.loads(profiles.read_bytes())["profiles"].values()
    assert (kept["type"], kept["tokenUrl"]) == ("oauth", server.token_url)


async def test_a_person_pastes_the_address_where_the_browser_is_elsewhere(
    environ: dict[str, str], state: Path
) -> None:
    async with StubOAuthServer() as server:
        describe(state, server)
        words = [sys.executable, "-m", "skerry", "auth", "login", "mine"]
        with anyio.fail_after(60):
            async with await anyio.open_process(words, env=environ) as process:
                url = await address(process)
                assert process.stdin is not None
                await process.stdin.send(server.approve(url).encode() + b"\n")
                assert await process.wait() == 0


def describe(state: Path, server: StubOAuthServer) -> None:
    state.mkdir(mode=0o700, exist_ok=True)
    service = {
        "authorizeUrl": server.authorize_url,
        "tokenUrl": server.token_url,
        "clientId": "client",
    }
    models = {"providers": {"mine": {"baseUrl": "https://models.example/v1"}}}
    content = {"models": models, "auth": {"providers": {"mine": service}}}
    path = state / "skerry.json"
    path.write_text(json.dumps(content))
    path.chmod(0o600)


async def address(process: anyio.abc.Process) -> str:
    """Returns the address that the command prints for the browser."""
    assert process.stderr is not None
    text = ""
    while "paste" not in text:
        text += (await process.stderr.receive()).decode()
    return next(line.strip() for line in text.splitlines() if "code_challenge" in line)
