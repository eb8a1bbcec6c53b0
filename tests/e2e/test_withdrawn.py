"""Messages that people delete on their platform are withdrawn if no model has read them."""

from pathlib import Path
from typing import Any

import anyio

from skerry.hooks.hooks import Hooks
from skerry.testing.channel import FakePlatform
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.whole import whole_gateway

OPEN: dict[str, Any] = {
    "dmPolicy": "open",
    "allowFrom": ["*"],
    "groupPolicy": "open",
    "groups": {"*": {}},
}
HELD: dict[str, Any] = {"messages": {"inbound": {"debounceMs": 1500}}}


async def replies(platform: FakePlatform, count: int) -> list[str]:
    with anyio.fail_after(60):
        while len(platform.received()) < count:  # noqa: ASYNC110 - the platform is a folder
            await anyio.sleep(0.02)
    return [message.text for message in platform.received()]


async def taken(platform: FakePlatform, count: int) -> None:
    with anyio.fail_after(60):
        while platform.acknowledged() < count:  # noqa: ASYNC110 - the platform is a folder
            await anyio.sleep(0.02)


async def test_a_run_stops_and_what_waits_behind_it_is_not_answered(tmp_path: Path) -> None:
    platform, gate = FakePlatform(tmp_path / "platform"), ReplyGate()
    model = ScriptedModel([["thinking", gate, " of it"], ["fine"]])
    config = {"messages": {"queue": {"mode": "followup"}}, "channels": {"memory": OPEN}}
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config, model=model) as (
        application,
        _,
    ):
        platform.say("buy it", message_id="m1")
        with anyio.fail_after(60):
            await gate.reached.wait()
        platform.say("and that", message_id="m2")
        platform.say("", message_id="", deletes="m2")
        platform.say("", message_id="", deletes="m1")
        await taken(platform, 4)
        with anyio.fail_after(60):
            while application.dispatch.active():  # noqa: ASYNC110 - nobody is told
                await anyio.sleep(0.02)
        gate.open()
        platform.say("hello", message_id="m3")
        with anyio.fail_after(60):
            while "fine" not in (texts := await replies(platform, 1)):  # noqa: ASYNC110 - a folder
                await anyio.sleep(0.02)
    assert not any("of it" in text for text in texts)
    said = [request.messages[-1].text for request in model.requests]
    assert ["\nbuy it\n" in said[0], "\nhello\n" in said[1]] == [True, True], said


async def test_what_is_held_or_kept_for_a_group_is_dropped(tmp_path: Path) -> None:
    platform, model = FakePlatform(tmp_path / "platform"), ScriptedModel(echo)
    config = {**HELD, "channels": {"memory": OPEN}}
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config, model=model):
        platform.say("one", message_id="m1")
        platform.say("my secret", message_id="m2")
        platform.say("", message_id="", deletes="m2")
        assert await replies(platform, 1) == ["echo: one"]
        for number, text in enumerate(("a boat", "a secret", "a secret again"), 1):
            more: dict[str, Any] = {"peer": "crew", "kind": "group", "sender": f"s{number}"}
            platform.say(text, message_id=f"g{number}", **more)
        # Edits of a message go with it, and messages of another chat stay.
        edit: dict[str, Any] = {"peer": "crew", "kind": "group", "sender": "s2", "edited": True}
        platform.say("a secret now", message_id="g2:5", **edit)
        platform.say("", peer="crew", kind="group", message_id="", deletes="g2")
        platform.say("", peer="other", kind="group", message_id="", deletes="g1")
        payload: dict[str, Any] = {
            "peer": "crew",
            "kind": "group",
            "sender": "ann",
            "mentions_me": True,
        }
        platform.say("well?", message_id="g9", **payload)
        await replies(platform, 2)
    told = model.requests[-1].messages[-1].text
    assert "a boat" in told
    assert "a secret again" in told
    assert "a secret now" not in told
    assert told.count("a secret") == 1
