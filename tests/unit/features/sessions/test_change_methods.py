"""Methods that read and change sessions, in both versions of the protocol."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.features.sessions import change_methods as changes
from skerry.hooks.events import BeforeReset, SessionEnd, SessionStart
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import AssistantMessage, Message, TextBlock, Usage
from skerry.store import Unit, sessions
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire, connected

MAIN = SessionKey.main()
CHAT = SessionKey.parse("agent:main:chat")
WRITER = ["operator.read", "operator.write"]

V3_ROW = {
    *("key", "kind", "displayName", "chatType", "origin", "updatedAt", "sessionId", "systemSent"),
    *("abortedLastRun", "inputTokens", "outputTokens", "totalTokens", "totalTokensFresh"),
    *("modelProvider", "model", "contextTokens", "deliveryContext", "lastChannel", "label"),
}
"""Keys of the captured rows of version 3, and the label."""


def answer(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "x", "stub", "stub-model", Usage(), "stop", 2)


async def talk(rig: Rig, key: SessionKey, *texts: str, now: int = 7) -> str:
    """Writes a conversation, its person and the model in turn; returns the session's id."""

    def work(unit: Unit) -> str:
        session_id, tail = sessions.ensure(unit, key, SessionId(f"id-{key.scope[-1]}"), now)
        messages: list[Message] = [
            answer(text) if number % 2 else message.user(text, now)
            for number, text in enumerate(texts)
        ]
        sessions.append(unit, session_id, tail, "r1", messages, now)
        return session_id

    return await rig.store.write(work)


async def keys(wire: Wire, **params: Any) -> list[str]:
    found = (await wire.call("sessions.list", params))["sessions"]
    return [row["key"].removeprefix("agent:main:") for row in found]


async def texts(wire: Wire, key: str = "chat", **params: Any) -> list[str]:
    payload = await wire.call("chat.history", {"sessionKey": key} | params)
    return [message["content"][0]["text"] for message in payload["messages"]]


async def refusal(wire: Wire, method: str, **params: Any) -> str:
    reply = await wire.ask(method, params)
    assert not reply["ok"], reply
    return str(reply["error"]["message"])


@pytest.fixture
async def old(rig: Rig) -> AsyncIterator[Wire]:
    async with connected(rig.url, minProtocol=3, maxProtocol=3) as wire:
        yield wire


@pytest.fixture(params=[4, 3])
async def either(rig: Rig, request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    version = request.param
    async with connected(rig.url, minProtocol=version, maxProtocol=version) as wire:
        yield wire


# Reading


async def test_a_list_of_version_3_has_only_what_that_version_has(rig: Rig, old: Wire) -> None:
    await talk(rig, CHAT, "hi", "hello")
    payload = await old.call("sessions.list", {"limit": 2})
    assert set(payload) == {"ts", "path", "count", "defaults", "sessions"}
    (row,) = payload["sessions"]
    assert set(row) <= V3_ROW
    assert (row["key"], row["kind"], row["systemSent"]) == (str(CHAT), "direct", True)


async def test_a_list_of_version_4_pages(rig: Rig, wire: Wire) -> None:
    for number in range(3):
        await talk(rig, SessionKey.parse(f"c{number}"), "x", now=10 + number)
    payload = await wire.call("sessions.list", {"limit": 2})
    assert (payload["totalCount"], payload["nextOffset"], payload["hasMore"]) == (3, 2, True)
    assert await keys(wire, limit=2, offset=2) == ["c0"]
    payload = await wire.call("sessions.list", {"limit": 10_000})
    assert (payload["limitApplied"], payload["hasMore"]) == (1000, False)


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("CHAT", ["chat"]),
        ("größe", ["chat"]),
        ("GRÖSSE", ["chat"]),
        ("last word", ["chat"]),
        ("middle", []),
        ("holidays", ["trip"]),
        ("id-trip", ["trip"]),
    ],
)
async def test_a_search_looks_at_key_label_and_both_ends(
    rig: Rig, wire: Wire, search: str, found: list[str]
) -> None:
    await talk(rig, CHAT, "Welche Größe?", "in the middle", "and", "the LAST word")
    await talk(rig, SessionKey.parse("trip"), "where to?", "there")
    await wire.call("sessions.patch", {"key": "trip", "label": "Holidays"})
    assert await keys(wire, search=search) == found
    total = (await wire.call("sessions.list", {"search": search}))["totalCount"]
    assert total == len(found)


async def test_a_list_can_be_narrowed(rig: Rig, wire: Wire) -> None:
    now = rig.context.clock.now_ms()
    await talk(rig, CHAT, "x", now=now)
    await talk(rig, SessionKey.parse("agent:gone:talk"), "x", now=1)
    await talk(rig, SessionKey.parse("global"), "x", now=2)
    await wire.call("sessions.patch", {"key": "chat", "label": "mine"})
    assert len(await keys(wire)) == 2
    assert await keys(wire, includeGlobal=True, agentId="main") == ["chat", "global"]
    assert await keys(wire, configuredAgentsOnly=True) == ["chat"]
    assert await keys(wire, activeMinutes=5) == ["chat"]
    assert await keys(wire, label="mine") == ["chat"]
    assert await keys(wire, spawnedBy="chat") == []


async def test_one_session_is_described(rig: Rig, either: Wire) -> None:
    await talk(rig, CHAT, "hi there", "hello")
    params = {"key": "chat", "includeDerivedTitles": True, "includeLastMessage": True}
    row = (await either.call("sessions.describe", params))["session"]
    assert (row["key"], row["derivedTitle"]) == (str(CHAT), "hi there")
    assert row["lastMessagePreview"] == "hello"
    assert await either.call("sessions.describe", {"key": "none"}) == {"session": None}


async def test_a_preview_has_the_last_messages_cut(rig: Rig, either: Wire) -> None:
    await talk(rig, CHAT, "first", "second", "x" * 300)
    await rig.store.write(
        lambda unit: sessions.ensure(unit, SessionKey.parse("new"), SessionId("n"), 1)
    )
    params = {"keys": ["chat", "new", "none"], "limit": 2, "maxChars": 20}
    chat, new, none = (await either.call("sessions.preview", params))["previews"]
    assert chat == {
        "key": "chat",
        "status": "ok",
        "items": [
            {"role": "assistant", "text": "second"},
            {"role": "user", "text": "x" * 19 + "…"},
        ],
    }
    assert (new["status"], none["status"]) == ("empty", "missing")


async def test_a_session_is_found_by_key_id_or_label(rig: Rig, either: Wire) -> None:
    session_id = await talk(rig, CHAT, "hi")
    await either.call("sessions.patch", {"key": "chat", "label": "mine"})
    payload = {"ok": True, "key": str(CHAT), "agentId": "main"}
    for name in ({"key": "chat"}, {"sessionId": session_id}, {"label": "mine"}):
        assert await either.call("sessions.resolve", name) == payload
    missing = {"label": "no", "allowMissing": True}
    assert await either.call("sessions.resolve", missing) == {"ok": False}
    assert await refusal(either, "sessions.resolve", key="no") == "No session found: no"
    assert "Provide either" in await refusal(either, "sessions.resolve")
    assert "not multiple" in await refusal(either, "sessions.resolve", key="a", label="b")


# Changing


async def test_a_patch_changes_what_is_named_and_nothing_else(rig: Rig, either: Wire) -> None:
    await talk(rig, CHAT, "hi")
    levels = {"thinkingLevel": "high", "verboseLevel": "on", "sendPolicy": "deny"}
    await either.call("sessions.patch", {"key": "chat", "label": "lbl"} | levels)
    patch = {"key": "chat", "model": "stub/other", "verboseLevel": None}
    payload = await either.call("sessions.patch", patch)
    entry = payload["entry"]
    assert (payload["ok"], payload["key"]) == (True, str(CHAT))
    assert payload["resolved"] == {"modelProvider": "stub", "model": "other"}
    assert (entry["label"], entry["thinkingLevel"], entry["sendPolicy"]) == ("lbl", "high", "deny")
    assert (entry["providerOverride"], entry["modelOverride"]) == ("stub", "other")
    assert "verboseLevel" not in entry
    assert (await either.call("chat.history", {"sessionKey": "chat"}))["thinkingLevel"] == "high"


async def test_what_cannot_be_honoured_is_refused(rig: Rig, either: Wire) -> None:
    await talk(rig, CHAT, "hi")

    async def refused(**params: Any) -> str:
        return await refusal(either, "sessions.patch", key="chat", **params)

    assert await refused(model="no/such") == 'Unknown provider "no"'
    assert "at /thinkingLevel" in await refused(thinkingLevel="much")
    assert "cannot take 'execHost'" in await refused(execHost="gateway")
    assert "read it again" in await refused(label="x", expectedSessionId="other")
    await talk(rig, MAIN, "hi")
    await either.call("sessions.patch", {"key": "main", "label": "taken"})
    assert await refused(label="taken") == "label already in use: taken"


async def test_a_writer_may_name_a_session_but_not_choose_its_model(rig: Rig) -> None:
    async with connected(rig.url, scopes=WRITER) as wire:
        await wire.call("sessions.patch", {"key": "chat", "label": "lbl", "pinned": True})
        refused = (await wire.ask("sessions.patch", {"key": "chat", "model": "stub/other"}))[
            "error"
        ]
        assert refused["details"]["missingScope"] == "operator.admin"
        (row,) = (await wire.call("sessions.list", {}))["sessions"]
        assert (row["label"], row["pinned"]) == ("lbl", True)


async def test_a_reset_starts_a_session_and_keeps_the_old_transcript(
    rig: Rig, either: Wire
) -> None:
    old_id = await talk(rig, CHAT, "hi", "hello")
    settings = {"label": "lbl", "thinkingLevel": "low", "model": "stub/other"}
    await either.call("sessions.patch", {"key": "chat"} | settings)
    payload = await either.call("sessions.reset", {"key": "chat"})
    entry = payload["entry"]
    assert (payload["ok"], payload["key"]) == (True, str(CHAT))
    assert entry["sessionId"] != old_id
    assert (entry["systemSent"], entry["totalTokens"], entry["label"]) == (False, 0, "lbl")
    assert entry["thinkingLevel"] == "low"
    assert "modelOverride" not in entry
    assert await texts(either) == []
    assert await texts(either, sessionId=old_id) == ["hi", "hello"]


async def test_a_delete_takes_it_off_the_list_and_keeps_what_was_said(
    rig: Rig, either: Wire
) -> None:
    session_id = await talk(rig, CHAT, "hi", "hello")
    payload = await either.call("sessions.delete", {"key": "chat"})
    (file,) = payload["archived"]
    assert (payload["ok"], payload["key"], payload["deleted"]) == (True, str(CHAT), True)
    assert f"/agents/main/sessions/{session_id}.jsonl.deleted." in file
    assert await keys(either) == []
    assert await keys(either, archived=True) == ["chat"]
    assert await texts(either, sessionId=session_id) == ["hi", "hello"]
    again = await either.call("sessions.delete", {"key": "chat"})
    assert again == {"ok": True, "key": str(CHAT), "deleted": False, "archived": []}


async def test_the_main_session_cannot_be_deleted(rig: Rig, either: Wire) -> None:
    await talk(rig, MAIN, "hi")
    refused = await refusal(either, "sessions.delete", key="main")
    assert refused == "Cannot delete the main session (agent:main:main)."


async def test_a_restore_undoes_a_delete(rig: Rig, wire: Wire) -> None:
    session_id = await talk(rig, CHAT, "hi", "hello")
    await wire.call("sessions.delete", {"key": "chat"})
    payload = await wire.call("sessions.restore", {"sessionId": session_id})
    assert (payload["key"], payload["restored"], payload["displaced"]) == (str(CHAT), True, None)
    assert await texts(wire) == ["hi", "hello"]
    again = await wire.call("sessions.restore", {"sessionId": session_id})
    assert again["restored"] is False


async def test_a_restore_archives_what_took_its_place(rig: Rig, wire: Wire) -> None:
    old_id = await talk(rig, CHAT, "old")
    new_id = (await wire.call("sessions.reset", {"key": "chat"}))["entry"]["sessionId"]
    await talk(rig, CHAT, "new")
    payload = await wire.call("sessions.restore", {"sessionId": old_id})
    assert payload["displaced"] == new_id
    assert await texts(wire) == ["old"]
    await wire.call("sessions.restore", {"sessionId": new_id})
    assert await texts(wire) == ["new"]


async def test_of_two_who_restore_one_session_one_did(rig: Rig, wire: Wire) -> None:
    old_id = await talk(rig, CHAT, "old")
    await wire.call("sessions.delete", {"key": "chat"})
    answers: list[bool] = []

    async def restore(wire: Wire) -> None:
        answers.append((await wire.call("sessions.restore", {"sessionId": old_id}))["restored"])

    async with connected(rig.url) as other, anyio.create_task_group() as tasks:
        for one in (wire, other):
            tasks.start_soon(restore, one)
    assert sorted(answers) == [False, True]


async def test_an_id_that_nobody_knows_is_not_restored(wire: Wire) -> None:
    assert "unknown session id" in await refusal(wire, "sessions.restore", sessionId="no")


async def test_a_transcript_is_only_read_under_its_own_key(rig: Rig, wire: Wire) -> None:
    session_id = await talk(rig, CHAT, "hi")
    refused = await refusal(wire, "chat.history", sessionKey="main", sessionId=session_id)
    assert "is not a session of agent:main:main" in refused


async def test_nothing_is_compacted_and_that_is_said(rig: Rig, wire: Wire, old: Wire) -> None:
    await talk(rig, CHAT, "hi", "hello")
    done = {"ok": True, "key": str(CHAT), "compacted": False}
    assert await old.call("sessions.compact", {"key": "chat"}) == done | {"kept": 2}
    said = {"reason": changes.NOTHING_TO_COMPACT}
    assert await wire.call("sessions.compact", {"key": "chat"}) == done | said


async def test_compact_says_what_it_saved(rig: Rig, wire: Wire, old: Wire) -> None:
    await talk(rig, CHAT, "hi", "hello")
    params = {"key": "chat", "instructions": "keep names"}
    done = {"ok": True, "key": str(CHAT), "compacted": True, "kept": 3}
    assert await old.call("sessions.compact", params) == done
    saved = {"result": {"tokensBefore": 900, "tokensAfter": 200}}
    assert await wire.call("sessions.compact", params) == done | saved
    assert rig.dispatcher.compacted[-1] == (CHAT, "keep names")


async def test_a_busy_session_is_not_changed(rig: Rig, wire: Wire) -> None:
    session_id = await talk(rig, CHAT, "hi")
    await wire.call("sessions.delete", {"key": "chat"})
    send = {"sessionKey": "chat", "message": "x", "idempotencyKey": "k1"}
    await wire.call("chat.send", send)
    reply = await wire.ask("sessions.restore", {"sessionId": session_id})
    assert (reply["error"]["code"], reply["error"]["retryable"]) == ("UNAVAILABLE", True)


async def test_a_reset_stops_what_runs(wire: Wire) -> None:
    send = {"sessionKey": "chat", "message": "x", "idempotencyKey": "k1"}
    await wire.call("chat.send", send)
    await wire.call("sessions.reset", {"key": "chat"})
    payloads = [frame["payload"] for frame in wire.frames if frame.get("event") == "chat"]
    assert [(row["runId"], row["state"]) for row in payloads] == [("k1", "aborted")]


async def test_plugins_see_each_session_that_ends_and_the_one_that_follows(tmp_path: Path) -> None:
    hooks, told = Hooks(), list[BeforeReset | SessionEnd | SessionStart]()
    seen = anyio.Event()

    async def note(event: BeforeReset | SessionEnd | SessionStart) -> None:
        told.append(event)
        if len(told) == 6:
            seen.set()

    for point in (hooks.before_reset, hooks.session_end, hooks.session_start):
        point.add(Handler("test", note))
    async with running_gateway(tmp_path, hooks=hooks) as rig, connected(rig.url) as wire:
        first = await talk(rig, CHAT, "hi", "hello")
        new = await wire.call("sessions.reset", {"key": "chat", "reason": "new"})
        await wire.call("sessions.restore", {"sessionId": first})
        await wire.call("sessions.delete", {"key": "chat"})
        with anyio.fail_after(60):
            await seen.wait()
    second = new["entry"]["sessionId"]
    before, *rest = told
    assert isinstance(before, BeforeReset)
    assert [message.text for message in before.messages] == ["hi", "hello"]
    assert (before.session_id, before.reason) == (first, "new")
    assert [
        (one.session_id, one.reason, one.message_count)
        if isinstance(one, SessionEnd)
        else (one.session_id, getattr(one, "resumed_from", None))
        for one in rest
    ] == [
        (first, "new", 2),
        (second, first),
        (second, "restore", 0),
        (first, second),
        (first, "delete", 2),
    ]


async def test_a_client_can_delete_without_telling_plugins(tmp_path: Path) -> None:
    hooks, told = Hooks(), list[str]()
    stopped = anyio.Event()

    async def note(event: SessionEnd) -> None:
        told.append(event.session_key)
        stopped.set()

    hooks.session_end.add(Handler("test", note))
    async with running_gateway(tmp_path, hooks=hooks) as rig, connected(rig.url) as wire:
        for name, tell in (("quiet", False), ("told", True)):
            key = SessionKey.parse(name)
            await talk(rig, key, "hi")
            await wire.call("sessions.delete", {"key": name, "emitLifecycleHooks": tell})
        with anyio.fail_after(60):
            await stopped.wait()
    assert told == [str(SessionKey.parse("told"))]
