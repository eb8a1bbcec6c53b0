"""Rules of groups and persons in whole gateways: prompts, linked persons, broadcasts, kinds."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.app.build import Application
from skerry.hooks.hooks import Hooks
from skerry.model.ids import ChannelId
from skerry.testing.channel import FakePlatform, MemoryChannel
from skerry.testing.model import ScriptedModel, echo
from tests.support.whole import whole_gateway

OPEN: dict[str, Any] = {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"}


async def answered(platform: FakePlatform, count: int) -> list[str]:
    with anyio.fail_after(60):
        while len(platform.received()) < count:  # noqa: ASYNC110 - the platform is a folder
            await anyio.sleep(0.02)
    return [message.text for message in platform.received()]


async def keys(application: Application) -> list[str]:
    """Returns the keys of the sessions that there are."""
    rows = await application.context.store.read(
        lambda reader: reader.all("SELECT key FROM session ORDER BY key")
    )
    return [str(key) for (key,) in rows]


async def test_each_group_has_its_own_prompt_else_that_of_all_groups(tmp_path: Path) -> None:
    groups = {
        "boats": {"requireMention": False, "systemPrompt": "Speak like a sailor."},
        "*": {"requireMention": False, "systemPrompt": "Answer in one sentence."},
    }
    config = {"channels": {"memory": {**OPEN, "groups": groups}}}
    platform, model = FakePlatform(tmp_path / "platform"), ScriptedModel(echo)
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config, model=model):
        for count, (peer, kind) in enumerate(
            [("boats", "group"), ("garden", "group"), ("ada", "direct")], 1
        ):
            platform.say("hello", peer=peer, kind=kind, message_id=f"m{count}")
            await answered(platform, count)
    systems = [request.request.system for request in model.requests]
    told = [("sailor" in text, "one sentence" in text) for text in systems]
    assert told == [(True, False), (False, True), (False, False)]


async def test_a_topic_has_rules_of_its_own_and_takes_the_others_from_its_group(
    tmp_path: Path,
) -> None:
    topics = {
        "1": {"requireMention": False},
        "40": {"requireMention": False, "systemPrompt": "Speak of sails.", "agentId": "work"},
        "50": {"enabled": False},
    }
    boats = {"systemPrompt": "Speak like a sailor.", "topics": topics}
    config = {
        "agents": {"list": [{"id": "main", "default": True}, {"id": "work"}]},
        "channels": {"memory": {**OPEN, "groups": {"boats": boats}}},
    }
    platform, model = FakePlatform(tmp_path / "platform"), ScriptedModel(echo)
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config, model=model) as (
        application,
        _,
    ):
        for number, thread in enumerate(("50", "60", None, "40")):
            platform.say(
                f"in {thread}", peer="boats", kind="group", message_id=f"m{number}",
                sender="ada", thread_id=thread,
            )  # fmt: skip
        # Answers of different conversations come in any order.
        texts = await answered(platform, 2)
        assert {text.splitlines()[-1] for text in texts} == {"echo: in None", "echo: in 40"}
        assert await keys(application) == [
            "agent:main:memory:group:boats",
            "agent:work:memory:group:boats:thread:40",
        ]
    told = {
        ("sails" in request.request.system, "sailor" in request.request.system)
        for request in model.requests
    }
    assert told == {(False, True), (True, True)}


@pytest.mark.requirement("session-identity-links")
async def test_a_person_who_is_linked_goes_on_in_another_app(tmp_path: Path) -> None:
    config = {
        "channels": {"memory": OPEN, "other": OPEN},
        "session": {
            "dmScope": "per-channel-peer",
            "identityLinks": {"ada": ["memory:ada-here", "other:77"]},
        },
    }
    fake_platform, there = FakePlatform(tmp_path / "here"), FakePlatform(tmp_path / "there")
    other = MemoryChannel(there, channel=ChannelId("other"))
    model = ScriptedModel(echo)
    async with whole_gateway(
        tmp_path / "home", Hooks(), fake_platform, config, model=model, adapters=[other]
    ) as (application, _):
        fake_platform.say("my boat is called Heron", peer="ada-here", message_id="m1")
        await answered(fake_platform, 1)
        there.say("what is it called?", peer="77", message_id="m1")
        await answered(there, 1)
        there.say("and mine?", peer="78", message_id="m2")
        await answered(there, 2)
        found = await keys(application)
    texts = ["\n".join(message.text for message in request.messages) for request in model.requests]
    assert ["Heron" in text for text in texts] == [True, True, False]
    assert len(found) == 2
    assert [message.text for message in fake_platform.received()] == [
        "echo: my boat is called Heron"
    ]


async def test_agents_of_a_broadcast_answer_each_with_words_of_its_own(tmp_path: Path) -> None:
    group = {"requireMention": False}
    config = {
        "agents": {
            "list": [
                {"id": "main", "default": True},
                {"id": "work", "identity": {"name": "Skipper"}},
                {"id": "home", "identity": {"name": "Gardener"}},
            ]
        },
        "bindings": [{"agentId": "main", "match": {"channel": "memory"}}],
        "broadcast": {"all": ["work", "home"]},
        "channels": {"memory": {**OPEN, "groups": {"all": group, "one": group}}},
    }
    platform, model = FakePlatform(tmp_path / "platform"), ScriptedModel(echo)
    home = tmp_path / "home"
    async with whole_gateway(home, Hooks(), platform, config, model=model) as (application, _):
        platform.say("who are you?", peer="all", kind="group", message_id="m1")
        assert await answered(platform, 2) == ["echo: who are you?"] * 2
        platform.say("and you?", peer="one", kind="group", message_id="m2")
        await answered(platform, 3)
        assert await keys(application) == [
            "agent:home:memory:group:all",
            "agent:main:memory:group:one",
            "agent:work:memory:group:all",
        ]


@pytest.mark.requirement("routing-peer-kinds")
@pytest.mark.parametrize(
    ("kind", "peer", "agent"),
    [
        ("dm", "direct", "work"),
        ("direct", "direct", "work"),
        ("group", "group", "work"),
        ("channel", "channel", "work"),
        ("group", "direct", "main"),
        ("dm", "group", "main"),
    ],
)
async def test_a_kind_of_a_binding_is_that_of_the_conversation(
    tmp_path: Path, kind: str, peer: str, agent: str
) -> None:
    match = {"channel": "memory", "peer": {"kind": kind, "id": "x"}}
    config = {
        "agents": {"list": [{"id": "main", "default": True}, {"id": "work"}]},
        "bindings": [{"agentId": "work", "match": match}],
        "session": {"dmScope": "per-channel-peer"},
        "channels": {"memory": {**OPEN, "groups": {"*": {"requireMention": False}}}},
    }
    platform = FakePlatform(tmp_path / "platform")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config) as (application, _):
        platform.say("hello", peer="x", kind=peer, message_id="m1")
        await answered(platform, 1)
        assert await keys(application) == [f"agent:{agent}:memory:{peer}:x"]
