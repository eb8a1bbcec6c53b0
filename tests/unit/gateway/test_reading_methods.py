"""Methods that read: history, sessions, models, the configuration, the gateway itself."""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from skerry.gateway.methods import chat as methods
from skerry.model import message
from skerry.model.errors import StoreFailedError
from skerry.model.event import RunStarted, TextDelta
from skerry.model.ids import RunId, SessionId, SessionKey, agent_id
from skerry.model.message import AssistantMessage, Message, TextBlock, Usage
from skerry.model.run import RunRequest
from skerry.ports.dispatch import QueuedRun
from skerry.store import Unit, runs, sessions
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.wire import Wire, connected, present_modes, request

MAIN = SessionKey.main()


def answer(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "x", "stub", "stub-model", Usage(), "stop", 2)


async def write(
    rig: Rig, messages: Sequence[Message], key: SessionKey = MAIN, run_id: str = "r1"
) -> None:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, key, SessionId(f"id-{key}"), 1)
        sessions.append(unit, session_id, tail, run_id, messages, 7)

    await rig.store.write(work)


async def history(wire: Wire, **params: Any) -> Any:
    return await wire.call("chat.history", {"sessionKey": "main"} | params)


async def test_a_conversation_that_does_not_exist_is_empty(wire: Wire) -> None:
    assert await history(wire, sessionKey="new") == {
        "sessionKey": "agent:main:new",
        "sessionId": None,
        "messages": [],
        "totalMessages": 0,
        "hasMore": False,
        "thinkingLevel": "off",
        "activeRuns": [],
    }


async def test_history_is_the_transcript_with_ids(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user("hi", 1), answer("hello")])
    payload = await history(wire)
    asked, answered = payload["messages"]
    assert asked == {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
        "timestamp": 1,
        "__openclaw": {
            "id": "9e3779b1",
            "seq": 1,
            "recordTimestampMs": 7,
            "origin": "stranger",
            "runId": "r1",
        },
        "idempotencyKey": "r1:user",
    }
    assert answered["content"] == [{"type": "text", "text": "hello"}]
    assert answered["__openclaw"]["runId"] == "r1"
    assert "idempotencyKey" not in answered
    assert (payload["sessionKey"], payload["sessionId"]) == (str(MAIN), f"id-{MAIN}")


async def test_history_gives_the_newest_and_pages_back(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user(str(number), number) for number in range(1, 301)])
    payload = await history(wire)
    assert [message["timestamp"] for message in payload["messages"]] == list(range(101, 301))
    assert (payload["totalMessages"], payload["hasMore"], payload["nextOffset"]) == (300, True, 200)
    older = await history(wire, offset=200)
    assert [message["timestamp"] for message in older["messages"]] == list(range(1, 101))
    assert not older["hasMore"]
    assert "nextOffset" not in older
    assert (await history(wire, offset=300))["messages"] == []


@pytest.mark.parametrize("limit", [0, 1001, "5", 1.5])
async def test_a_limit_out_of_range_is_refused(wire: Wire, limit: object) -> None:
    error = (await wire.ask("chat.history", {"sessionKey": "main", "limit": limit}))["error"]
    assert "at /limit: must be" in error["message"]


async def test_history_is_capped_at_the_bytes_that_a_client_takes(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user("x" * 1000, number) for number in range(1, 11)])
    payload = await history(wire, maxBytes=3500)
    assert [message["timestamp"] for message in payload["messages"]] == [9, 10]
    assert payload["nextOffset"] == 2


async def test_history_is_capped_at_six_megabytes(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user("x" * 1_000_000, number) for number in range(1, 11)])
    payload = await history(wire)
    assert [message["timestamp"] for message in payload["messages"]] == list(range(5, 11))
    assert payload["nextOffset"] == 6


async def test_history_says_what_is_not_in_it_yet(rig: Rig, wire: Wire) -> None:
    for key in ("k1", "k2"):
        send = {"sessionKey": "main", "message": "x", "idempotencyKey": key}
        await wire.call("chat.send", send)
    rig.dispatcher.tell(RunId("k1"), RunStarted(1))
    rig.dispatcher.tell(RunId("k1"), TextDelta("so"))
    rig.dispatcher.tell(RunId("k1"), TextDelta(" far"))
    assert (await history(wire))["activeRuns"] == [
        {"runId": "k1", "text": "so far"},
        {"runId": "k2", "text": ""},
    ]
    assert (await history(wire, sessionKey="other"))["activeRuns"] == []


async def test_history_says_what_nobody_has_read_yet(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = ((RunId(name), f"says {name}") for name in "abc")
    line = [QueuedRun(b[0], (a, b)), QueuedRun(c[0], (c,), waits=True)]
    monkeypatch.setattr(rig.dispatcher, "line", lambda _: line)
    said = [{"runId": run_id, "text": text} for run_id, text in (a, b)]
    assert (await history(wire))["activeRuns"] == [
        {"runId": "b", "text": "", "said": said},
        {"runId": "c", "text": "", "queued": "says c"},
    ]


async def test_an_answer_that_ends_while_history_is_read_is_in_it(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wire.call("chat.send", {"sessionKey": "main", "message": "x", "idempotencyKey": "k1"})
    read = rig.store.read
    times = 0

    async def end_after_reading(work: Any) -> Any:
        nonlocal times
        found = await read(work)
        times += 1
        if times == 1:
            await write(rig, [message.user("x", 1), answer("done")], run_id="k1")
            rig.dispatcher.end(RunId("k1"))
        return found

    monkeypatch.setattr(rig.store, "read", end_after_reading)
    payload = await history(wire)
    assert [message["role"] for message in payload["messages"]] == ["user", "assistant"]
    assert payload["activeRuns"] == []
    assert times == 2
    assert times < methods._MAX_READS


async def test_sessions_are_listed_by_their_latest_use(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user("first words here", 1), answer("last words")])
    await write(rig, [message.user("b", 1)], SessionKey.parse("telegram:group:9"))
    listing = await wire.call(
        "sessions.list", {"limit": 1, "includeDerivedTitles": True, "includeLastMessage": True}
    )
    assert (listing["count"], listing["totalCount"]) == (1, 2)
    assert (listing["hasMore"], listing["nextOffset"]) == (True, 1)
    assert listing["defaults"] == {
        "modelProvider": "stub",
        "model": "stub-model",
        "contextTokens": 200_000,
        "thinkingLevels": [{"id": "off", "label": "off"}],
        "thinkingOptions": ["off"],
        "thinkingDefault": "off",
        "agentRuntime": {
            "id": "auto",
            "cloudPlacementSupported": False,
            "devicePlacementSupported": False,
            "source": "implicit",
        },
        "modelSelectionTarget": "session",
    }
    (row,) = listing["sessions"]
    assert (row["key"], row["kind"], row["isMain"]) == ("agent:main:main", "direct", True)
    assert (row["derivedTitle"], row["lastMessagePreview"]) == ("first words here", "last words")
    payload = await wire.call("sessions.list", {"search": "TELEGRAM", "includeGlobal": True})
    assert [row["kind"] for row in payload["sessions"]] == ["group"]
    assert (await wire.call("sessions.list", {"agentId": "work"}))["sessions"] == []


async def test_a_title_that_was_cut_shows_it(rig: Rig, wire: Wire) -> None:
    whole, longer = "w" * sessions.TITLE_LENGTH, f"{'w' * 58} and more"
    await write(rig, [message.user(whole, 1), answer(longer)])
    sent = {"includeDerivedTitles": True, "includeLastMessage": True}
    (row,) = (await wire.call("sessions.list", sent))["sessions"]
    assert (row["derivedTitle"], row["lastMessagePreview"]) == (whole, f"{'w' * 58}…")


SECRETS = ["canary-token", "canary-key", "canary-header", "canary-userinfo", "canary-comment"]


async def test_config_get_has_no_secret_and_everything_else(tmp_path: Path) -> None:
    file = {
        "gateway": {"port": 1, "auth": {"token": SECRETS[0]}},
        "models": {
            "providers": {
                "own": {
                    "baseUrl": f"http://user:{SECRETS[3]}@127.0.0.1:1/v1",
                    "apiKey": SECRETS[1],
                    "headers": {"Authorization": SECRETS[2], "x": f"again {SECRETS[1]}"},
                    "models": [{"id": "m", "maxTokens": 5}],
                }
            }
        },
    }
    (tmp_path / "skerry.json").write_text(f"// {SECRETS[4]}\n{json.dumps(file)}")
    async with running_gateway(tmp_path, config=file) as rig, connected(rig.url) as wire:
        payload = await wire.call("config.get")
    assert not [secret for secret in [*SECRETS, TOKEN] if secret in json.dumps(payload)]
    assert payload["parsed"]["gateway"] == {"port": 1, "auth": {"token": "__OPENCLAW_REDACTED__"}}
    own = payload["config"]["models"]["providers"]["own"]
    assert own["apiKey"] == "__OPENCLAW_REDACTED__"
    assert own["baseUrl"] == "http://__OPENCLAW_REDACTED__@127.0.0.1:1/v1"
    assert own["models"][0]["maxTokens"] == 5
    assert payload["config"]["gateway"]["tickIntervalMs"] == 30_000
    assert json.loads(payload["raw"]) == payload["parsed"]
    assert (payload["exists"], payload["valid"]) == (True, True)
    assert payload["hash"].startswith("hmac-sha256:v1:")


async def test_a_file_that_cannot_be_read_is_no_failure(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig, connected(rig.url) as wire:
        payload = await wire.call("config.get", {})
        assert (payload["exists"], payload["raw"], payload["parsed"]) == (False, None, {})
        (tmp_path / "skerry.json").write_text("{broken")
        payload = await wire.call("config.get", {})
        assert (payload["exists"], payload["valid"], payload["parsed"]) == (True, False, {})
        assert payload["issues"]


async def test_health_says_at_once_when_the_database_fails_and_when_it_works_again(
    rig: Rig, wire: Wire
) -> None:
    assert (await wire.call("health"))["storage"] == {"state": "ok"}
    limit = "PRAGMA max_page_count = "
    await rig.store.write(lambda unit: unit.one(f"{limit}1"))  # no page to grow
    with pytest.raises(StoreFailedError):
        await write(rig, [message.user("x" * 200_000, 1)])
    failing = await wire.call("health")
    assert (failing["ok"], failing["storage"]["state"]) == (False, "full")
    await rig.store.write(lambda unit: unit.one(f"{limit}1000000"))
    working = await wire.call("health")
    assert (working["ok"], working["storage"]) == (True, {"state": "ok"})


async def test_health_is_the_last_report_unless_asked_to_look(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user("x", 1)])
    assert (await wire.call("health"))["sessions"]["count"] == 0
    assert (await wire.call("health", {"probe": True}))["sessions"]["count"] == 1
    assert (await wire.call("health"))["agents"][0]["sessions"]["recent"][0]["key"] == str(MAIN)


async def test_status_tells_what_goes_on(rig: Rig, wire: Wire) -> None:
    await write(rig, [message.user("x", 1)])
    await wire.call("chat.send", {"sessionKey": "main", "message": "x", "idempotencyKey": "k"})
    status = await wire.call("status", {"includeCliProjection": True})
    assert (status["activeRuns"], status["ready"], status["failing"]) == (1, True, [])
    assert status["sessions"]["recent"][0]["key"] == str(MAIN)
    assert status["sessions"]["defaults"] == {"model": "stub-model", "contextTokens": 200_000}


@pytest.mark.requirement("gateway-events-core")
async def test_presence_names_who_is_there_and_follows_them(rig: Rig, wire: Wire) -> None:
    async with connected(rig.url, client=CLIENT) as other:
        joined = await wire.until(lambda frame: present_modes(frame) == ["gateway", "test", "cli"])
        assert (
            joined["stateVersion"]["presence"]
            == other.hello["snapshot"]["stateVersion"]["presence"]
        )
    left = await wire.until(lambda frame: present_modes(frame) == ["gateway", "test"])
    assert left["stateVersion"]["presence"] > joined["stateVersion"]["presence"]
    assert await wire.call("system-presence") == left["payload"]["presence"]


async def test_a_storm_of_clients_is_told_together(rig: Rig, wire: Wire) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(30):
            await stack.enter_async_context(connected(rig.url))
        await wire.until(lambda frame: len(present_modes(frame)) == 32)
    events = [frame for frame in wire.frames if frame.get("event") == "presence"]
    assert len(events) < 30


CLIENT = {"id": "cli", "version": "2", "platform": "linux", "mode": "cli", "displayName": "me"}


async def test_agents_are_listed_and_named(tmp_path: Path) -> None:
    agents = {"list": [{"id": "main"}, {"id": "work", "name": "Ada", "model": "a/b"}]}
    config = {"agents": agents}
    async with running_gateway(tmp_path, config=config) as rig, connected(rig.url) as wire:
        listing = await wire.call("agents.list")
        assert listing["defaultId"] == "main"
        assert listing["agents"][1]["name"] == "Ada"
        assert listing["agents"][1]["model"] == {"primary": "a/b"}
        assert await wire.call("agent.identity.get", {"agentId": "work"}) == {
            "agentId": "work",
            "name": "Ada",
            "nameSource": "config",
            "avatar": "A",
        }
        main = await wire.call("agent.identity.get", {"sessionKey": "agent:main:x"})
        assert (main["name"], main["nameSource"]) == ("Assistant", "default")
        error = (await wire.ask("agent.identity.get", {"agentId": "nobody"}))["error"]
        assert error["details"]["remedy"] == "The agents are main, work."


@pytest.mark.requirement("gateway-events-core")
async def test_health_and_ticks_are_told_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.gateway.server._HEALTH_SECONDS", 0.05)
    config = {"gateway": {"tickIntervalMs": 100}}
    async with running_gateway(tmp_path, config=config) as rig, connected(rig.url) as wire:
        assert wire.hello["policy"]["tickIntervalMs"] == 100
        health = await wire.event("health")
        assert health["payload"]["ok"]
        assert health["stateVersion"].keys() == {"presence", "health"}
        tick = await wire.event("tick")
        assert tick["payload"].keys() == {"ts"}


async def test_health_that_cannot_be_looked_at_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("skerry.gateway.server._HEALTH_SECONDS", 0.05)
    async with running_gateway(tmp_path) as rig, connected(rig.url) as wire:
        read = rig.store.read
        broken = True

        async def fail_once(work: Any) -> Any:
            nonlocal broken
            if broken:
                broken = False
                raise OSError
            return await read(work)

        monkeypatch.setattr(rig.store, "read", fail_once)
        await wire.event("health")
    assert "the health report could not be made" in caplog.text


@pytest.mark.requirement("gateway-one-connection-per-client")
async def test_one_connection_sends_requests_and_receives_events(rig: Rig, wire: Wire) -> None:
    rig.dispatcher.reply = str.upper
    send = {"sessionKey": "main", "message": "hi", "idempotencyKey": "k"}
    await wire.send(request("chat.send", send, id="send"))
    final = await wire.event("chat", state="final")
    assert final["payload"]["message"]["content"] == [{"type": "text", "text": "HI"}]
    assert any(frame.get("id") == "send" for frame in wire.frames)


async def test_an_agent_shows_its_identity(tmp_path: Path) -> None:
    identity = {"name": "Wren", "emoji": "🐦", "theme": "brisk"}
    config = {"agents": {"list": [{"id": "a", "name": "A", "identity": identity}, {"id": "b"}]}}
    async with running_gateway(tmp_path, config=config) as rig, connected(rig.url) as wire:
        agents = (await wire.call("agents.list"))["agents"]
        assert [agent.get("identity") for agent in agents] == [identity, None]
        mine = await wire.call("agent.identity.get", {"agentId": "a"})
        assert (mine["name"], mine["avatar"], mine["theme"]) == ("Wren", "🐦", "brisk")
        assert (await wire.call("agent.identity.get", {"agentId": "b"}))["avatar"] == "A"
        workspace = rig.context.config().workspace(agent_id("b"))
        workspace.mkdir(parents=True)
        (workspace / "IDENTITY.md").write_text("---\nname: Tern\navatar: ./t.gif\n---\n")
        (workspace / "t.gif").write_bytes(b"GIF89a")
        other = await wire.call("agent.identity.get", {"agentId": "b"})
        assert (other["name"], other["nameSource"]) == ("Tern", "workspace")
        assert other["avatar"] == "data:image/gif;base64,R0lGODlh"
        listed = (await wire.call("agents.list"))["agents"]
        assert listed[1]["identity"] == {"name": "Tern", "avatar": "./t.gif"}


async def test_history_tells_the_messages_of_a_collected_prompt(rig: Rig, wire: Wire) -> None:
    text = "[Queued messages while agent was busy]\n\n---\nQueued #1\nb\n\n---\nQueued #2\nc"
    await write(rig, [message.user("a", 1), message.user(text, 2)], run_id="k2")

    def accept(unit: Unit) -> None:
        for run in ("k1", "k2"):
            request = RunRequest(RunId(run), MAIN, run)
            runs.add(unit, request, SessionId(f"id-{MAIN}"), 2, 1)

    first, second = (await history(wire))["messages"]
    assert "said" not in first["__openclaw"]
    assert second["__openclaw"]["said"] == [{"text": "b"}, {"text": "c"}]
    await rig.store.write(accept)
    second = (await history(wire))["messages"][-1]
    told = [{"runId": "k1", "text": "b"}, {"runId": "k2", "text": "c"}]
    assert second["__openclaw"]["said"] == told
    assert second["content"] == [{"type": "text", "text": text}]
