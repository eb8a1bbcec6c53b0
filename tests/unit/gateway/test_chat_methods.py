"""Methods about one conversation: notes, the data for opening a page, both versions."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BeforeMessageWrite, BeforeMessageWriteChange
from skerry.hooks.runner import Handler
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import ImageBlock, UserMessage
from skerry.store import sessions
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire, connected
from tests.unit.features.sessions.test_change_methods import CHAT, refusal, talk, texts


@pytest.fixture
async def old(rig: Rig) -> AsyncIterator[Wire]:
    async with connected(rig.url, minProtocol=3, maxProtocol=3) as wire:
        yield wire


async def test_a_message_of_version_3_has_no_metadata(rig: Rig, wire: Wire, old: Wire) -> None:
    await talk(rig, CHAT, "hi")
    params = {"sessionKey": "chat"}
    (plain,) = (await old.call("chat.history", params))["messages"]
    (dressed,) = (await wire.call("chat.history", params))["messages"]
    assert set(plain) == {"role", "content", "timestamp"}
    assert dressed["__openclaw"]["seq"] == 1


async def test_long_texts_are_cut_where_the_client_asks(rig: Rig, wire: Wire) -> None:
    await talk(rig, CHAT, "x" * 100)
    assert await texts(wire, maxChars=10) == ["x" * 10 + "\n…(cut)…"]
    assert await texts(wire) == ["x" * 100]


async def test_a_note_is_in_the_transcript_and_in_an_event(rig: Rig, wire: Wire) -> None:
    await talk(rig, CHAT, "hi")
    note = {"sessionKey": "chat", "message": "done", "label": "backup"}
    payload = await wire.call("chat.inject", note)
    assert await texts(wire) == ["hi", "[backup]\n\ndone"]
    (_, written) = (await wire.call("chat.history", {"sessionKey": "chat"}))["messages"]
    assert payload == {"ok": True, "messageId": written["__openclaw"]["id"]}
    assert (written["role"], written["model"]) == ("assistant", "gateway-injected")


async def test_clients_receive_the_event_of_a_note(rig: Rig, wire: Wire) -> None:
    await talk(rig, CHAT, "hi")
    async with connected(rig.url) as other:
        await other.call("chat.inject", {"sessionKey": "chat", "message": "done"})
    payload = (await wire.event("chat", state="final"))["payload"]
    assert payload["message"]["content"] == [{"type": "text", "text": "done"}]
    assert payload["sessionKey"] == str(CHAT)


async def test_a_note_needs_a_session(wire: Wire) -> None:
    assert await refusal(wire, "chat.inject", sessionKey="no", message="x") == "session not found"


async def test_a_note_passes_the_hooks_of_every_entry(tmp_path: Path) -> None:
    hooks = Hooks()

    def block(draft: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block="secret" in str(draft.message.content))

    hooks.before_message_write.add(Handler("test", block))
    async with running_gateway(tmp_path, hooks=hooks) as rig, connected(rig.url) as wire:
        await talk(rig, CHAT, "hi")
        note = {"sessionKey": "chat", "message": "a secret"}
        assert "a hook of a plugin dropped" in await refusal(wire, "chat.inject", **note)
        await wire.call("chat.inject", note | {"message": "a fact"})
        assert await texts(wire) == ["hi", "a fact"]


async def test_a_page_gets_all_it_needs_at_once(rig: Rig, wire: Wire) -> None:
    await talk(rig, CHAT, "hi")
    payload = await wire.call("chat.startup", {"sessionKey": "chat"})
    assert [message["content"][0]["text"] for message in payload["messages"]] == ["hi"]
    assert payload["sessionInfo"]["key"] == str(CHAT)
    assert payload["agentsList"]["defaultId"] == "main"
    assert payload["metadata"] == await wire.call("chat.metadata", {"sessionKey": "chat"})
    assert payload["metadata"]["models"][0]["id"] == "stub-model"


# What subscribers hear


async def test_only_subscribers_receive_events_of_sessions(rig: Rig, wire: Wire) -> None:
    assert await wire.call("sessions.subscribe") == {"subscribed": True}
    async with connected(rig.url) as other:
        await other.call("sessions.patch", {"key": "chat", "label": "new"})
        payload = (await wire.event("sessions.changed", reason="patch"))["payload"]
        assert (payload["sessionKey"], payload["label"]) == (str(CHAT), "new")
        await talk(rig, CHAT, "hi")
        assert (await wire.event("sessions.changed", phase="message"))["payload"]["systemSent"]
        await other.call("sessions.delete", {"key": "chat"})
        assert (await wire.event("sessions.changed", reason="delete"))["payload"]["archived"]
        assert await wire.call("sessions.unsubscribe") == {"subscribed": False}
        await other.call("health")
        assert not [frame for frame in other.frames if frame.get("event") == "sessions.changed"]


async def test_a_follower_receives_each_message_once(rig: Rig, wire: Wire) -> None:
    await talk(rig, CHAT, "before")
    follow = await wire.call("sessions.messages.subscribe", {"key": "chat"})
    assert follow == {"subscribed": True, "key": str(CHAT)}
    await talk(rig, CHAT, "one", "two")
    await talk(rig, SessionKey.parse("other"), "not this")
    await talk(rig, CHAT, "three")
    heard = [await wire.event("session.message") for _ in range(3)]
    assert [row["payload"]["messageSeq"] for row in heard] == [2, 3, 4]
    first = heard[0]["payload"]
    assert first["message"]["content"] == [{"type": "text", "text": "one"}]
    assert first["message"]["__openclaw"]["id"] == first["messageId"]
    assert (first["sessionKey"], first["sessionId"]) == (str(CHAT), "id-chat")


async def test_a_follower_receives_the_new_session_and_not_the_restored_one(
    rig: Rig, wire: Wire
) -> None:
    old_id = await talk(rig, CHAT, "old")
    await wire.call("sessions.messages.subscribe", {"key": "chat"})
    await wire.call("sessions.reset", {"key": "chat"})
    await talk(rig, CHAT, "new")
    payload = (await wire.event("session.message"))["payload"]
    assert payload["message"]["content"][0]["text"] == "new"
    await wire.call("sessions.restore", {"sessionId": old_id})
    await talk(rig, CHAT, "older")
    payload = (await wire.event("session.message"))["payload"]
    assert (payload["sessionId"], payload["messageSeq"]) == (old_id, 2)


async def test_a_follower_is_told_of_images_that_are_too_large_for_an_event(
    rig: Rig, wire: Wire
) -> None:
    image = UserMessage((ImageBlock("A" * 8_000_000, "image/png"),), 1)
    session_id = await talk(rig, CHAT, "before")
    await wire.call("sessions.messages.subscribe", {"key": "chat"})
    await rig.store.write(
        lambda unit: sessions.append(unit, SessionId(session_id), 1, "r2", [image], 2)
    )
    (block,) = (await wire.event("session.message"))["payload"]["message"]["content"]
    assert block == {"type": "image", "mimeType": "image/png", "omitted": True, "bytes": 6_000_000}


async def test_what_cannot_be_told_of_one_session_ends_no_gateway(
    rig: Rig, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    await wire.call("sessions.subscribe")
    await talk(rig, CHAT, "hi")
    await wire.event("sessions.changed", phase="message")
    await rig.store.write(lambda unit: unit.execute("UPDATE session SET key = 'agent::'"))
    rig.context.session_events.changed(["id-chat"], "patch")
    with anyio.fail_after(60):
        while "could not be sent" not in caplog.text:  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(0.01)
    await talk(rig, SessionKey.parse("other"), "hi")
    assert (await wire.event("sessions.changed", phase="message"))["payload"]["sessionId"] == (
        "id-other"
    )


async def test_an_unsubscribed_client_receives_nothing(rig: Rig, wire: Wire) -> None:
    await talk(rig, CHAT, "hi")
    await wire.call("sessions.messages.subscribe", {"key": "chat"})
    gone = await wire.call("sessions.messages.unsubscribe", {"key": "chat"})
    assert gone == {"subscribed": False, "key": str(CHAT)}
    await wire.call("sessions.messages.subscribe", {"key": "other"})
    await talk(rig, CHAT, "unheard")
    await talk(rig, SessionKey.parse("other"), "heard")
    payload = (await wire.event("session.message"))["payload"]
    assert payload["message"]["content"][0]["text"] == "heard"


async def test_a_follower_receives_only_the_size_of_large_images(rig: Rig, wire: Wire) -> None:
    session_id = SessionId(await talk(rig, CHAT, "hi"))
    await wire.call("sessions.messages.subscribe", {"key": "chat"})
    shown = [UserMessage((ImageBlock("A" * size, "image/png"),), 1) for size in (400, 400_000)]
    await rig.store.write(lambda unit: sessions.append(unit, session_id, 1, "r", shown, 7))
    small, large = [(await wire.event("session.message"))["payload"] for _ in range(2)]
    assert small["message"]["content"][0]["data"] == "A" * 400
    (image,) = large["message"]["content"]
    assert image == {"type": "image", "mimeType": "image/png", "omitted": True, "bytes": 300_000}
