"""`archived` of `sessions.patch`: a conversation goes off the list and comes back."""

from typing import Any

from tests.support.gateway import Rig
from tests.support.wire import Wire, connected
from tests.unit.features.sessions.test_change_methods import (
    CHAT,
    MAIN,
    WRITER,
    keys,
    refusal,
    talk,
    texts,
)


async def test_a_patch_archives_a_conversation_and_brings_it_back(rig: Rig, wire: Wire) -> None:
    session_id = await talk(rig, CHAT, "hi", "hello")
    await wire.call("sessions.patch", {"key": "chat", "label": "trip"})
    away = await wire.call("sessions.patch", {"key": "chat", "archived": True})
    assert (away["ok"], away["entry"]["sessionId"]) == (True, session_id)
    assert (await keys(wire), await keys(wire, archived=True)) == ([], ["chat"])
    back = await wire.call("sessions.patch", {"key": "chat", "archived": False})
    assert (back["entry"]["sessionId"], back["entry"]["label"]) == (session_id, "trip")
    assert (await keys(wire), await keys(wire, archived=True)) == (["chat"], [])
    assert await texts(wire) == ["hi", "hello"]
    again = await wire.call("sessions.patch", {"key": "chat", "archived": False})
    assert again["entry"]["sessionId"] == session_id


async def test_what_cannot_be_archived_is_refused(rig: Rig, wire: Wire) -> None:
    session_id = await talk(rig, CHAT, "hi")
    await talk(rig, MAIN, "hi")

    async def refused(key: str, *, archived: bool, **params: Any) -> str:
        params = {"key": key, "archived": archived} | params
        return await refusal(wire, "sessions.patch", **params)

    assert "Cannot archive the main session" in await refused("main", archived=True)
    assert "Unknown conversation" in await refused("nobody", archived=True)
    assert "Unknown archived conversation" in await refused("nobody", archived=False)
    assert "cannot be combined" in await refused("chat", archived=True, label="x")
    stale = {"expectedSessionId": "other"}
    assert "read it again" in await refused("chat", archived=True, **stale)
    assert "read it again" in await refused("chat", archived=False, **stale)
    assert sorted(await keys(wire)) == ["chat", "main"]
    async with connected(rig.url, scopes=WRITER) as writer:
        answer = await writer.ask("sessions.patch", {"key": "chat", "archived": True})
        assert answer["error"]["details"]["missingScope"] == "operator.admin"
    seen = {"expectedSessionId": session_id}
    await wire.call("sessions.patch", {"key": "chat", "archived": True} | seen)
    assert await keys(wire) == ["main"]
