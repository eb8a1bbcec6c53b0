"""Who comes from OpenClaw goes on in the conversation of then, and the memory is used there."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from skerry.cli.main import main
from skerry.hooks.hooks import Hooks
from skerry.testing.channel import FakePlatform
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

AT = "2026-02-17T10:00:00.000Z"
RESET = "2026-02-17T09-59-58.000Z"
GROUP = "agent:main:telegram:group:7"
CONFIG = {"session": {"reset": {"mode": "none"}}}
"""So that the conversation goes on, however long ago it was."""
SEARCH = 'call memory_search {"query": "where is the treasure?"}'


def transcript(session_id: str, text: str, at: str = AT) -> str:
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": "NO_REPLY"}],
        "api": "openai-completions",
        "provider": "openai",
        "model": "gpt-5",
        "usage": {},
        "stopReason": "stop",
        "timestamp": 1771322401000,
    }
    params = {"role": "user", "content": text, "timestamp": 1771322400000}
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": session_id, "timestamp": at, "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": at, "message": params},
        {"type": "message", "id": "b", "parentId": "a", "timestamp": at, "message": answer},
    ]
    return "\n".join(map(json.dumps, lines))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Makes a home with a main conversation that was reset once, and a group."""
    home = tmp_path / "openclaw"
    sessions = home / "agents/main/sessions"
    sessions.mkdir(parents=True)
    (home / "workspace").mkdir()
    (home / "workspace/MEMORY.md").write_text("The treasure is under the oak.", encoding="utf-8")
    (home / "openclaw.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    asked = "[Tue 2026-02-17 10:00 UTC] When is  dinner?"
    (sessions / "now.jsonl").write_text(transcript("now", asked), encoding="utf-8")
    (sessions / "group.jsonl").write_text(
        transcript("group", "hi all", "2026-02-16T10:00:00.000Z"), encoding="utf-8"
    )
    before = transcript("before", "the tea of then", "2026-02-15T10:00:00.000Z")
    (sessions / f"before.jsonl.reset.{RESET}").write_text(before, encoding="utf-8")
    known = {
        "agent:main:main": {"sessionId": "now", "label": "My Project", "thinkingLevel": "high"},
        GROUP: {"sessionId": "group", "totalTokens": 77, "groupActivation": "always"},
    }
    (sessions / "sessions.json").write_text(json.dumps(known), encoding="utf-8")
    return home


async def skerry(*arguments: str) -> int:
    return await anyio.to_thread.run_sync(partial(main, list(arguments)))


async def ask(wire: Wire, message: str, key: str = "main") -> list[dict[str, Any]]:
    params: dict[str, Any] = {
        "sessionKey": key,
        "idempotencyKey": f"{key} {message}",
        "message": message,
    }
    await wire.send({"type": "req", "id": "run", "method": "chat.send", "params": params})
    await wire.event("chat", state="final")
    wire.frames.clear()
    payload = await wire.call("chat.history", {"sessionKey": key})
    messages: list[dict[str, Any]] = payload["messages"]
    return messages


async def test_the_conversation_of_then_has_its_memory_its_settings_and_its_earlier_session(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SKERRY_STATE_DIR", str(home))
    assert await skerry("import", "openclaw", str(old), "--apply") == 0
    shown = capsys.readouterr()
    assert "your words     agent:main:main" in shown.out
    assert "1 setting groupActivation" in shown.err
    platform = FakePlatform(tmp_path / "platform")
    async with (
        whole_gateway(home, Hooks(), platform) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        listed = (await wire.call("sessions.list", {}))["sessions"]
        rows = {row["key"]: row for row in listed}
        assert rows["agent:main:main"]["label"] == "My Project"
        assert rows["agent:main:main"]["thinkingLevel"] == "high"
        assert rows[GROUP]["totalTokens"] == 77
        messages = await ask(wire, SEARCH)
        assert messages[0]["content"][0]["text"] == "When is  dinner?"
        (result,) = [json.dumps(message) for message in messages if message["role"] == "toolResult"]
        assert "under the oak" in result
        (refused,) = [
            json.dumps(row) for row in await ask(wire, SEARCH, GROUP) if row["role"] == "toolResult"
        ]
        assert "oak" not in refused
        messages = await ask(wire, "/resume")
        assert messages[0]["content"][0]["text"] == "the tea of then"


async def test_a_transcript_that_the_owner_calls_his_has_the_memory_and_another_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SKERRY_STATE_DIR", str(home))
    home.mkdir(mode=0o700)
    (home / "skerry.json").touch(mode=0o600)
    (home / "skerry.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for name in ("mine", "other"):
        (tmp_path / f"{name}.jsonl").write_text(transcript(name, "hello"), encoding="utf-8")
    file = str(tmp_path / "mine.jsonl")
    assert await skerry("sessions", "import", "--key", "main", "--mine", file) == 0
    assert "imported as yours" in capsys.readouterr().err
    file = str(tmp_path / "other.jsonl")
    assert await skerry("sessions", "import", "--key", "trip", file) == 0
    assert "imported as a stranger's" in capsys.readouterr().err
    (home / "workspace").mkdir(mode=0o700, exist_ok=True)
    (home / "workspace/MEMORY.md").write_text("The treasure is under the oak.", encoding="utf-8")
    async with (
        whole_gateway(home, Hooks(), FakePlatform(tmp_path / "platform")) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        for key, expected in (("main", True), ("trip", False)):
            messages = await ask(wire, SEARCH, key)
            (result,) = [
                json.dumps(message) for message in messages if message["role"] == "toolResult"
            ]
            assert ("under the oak" in result) is expected
