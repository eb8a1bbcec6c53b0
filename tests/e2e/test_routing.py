"""Agents on one platform: the choice of the agent, its reason, and their separation."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.hooks.hooks import Hooks
from skerry.testing.channel import FakePlatform
from skerry.testing.model import ScriptedModel, echo
from tests.support.cli import run_command
from tests.support.whole import whole_gateway

CONFIG: dict[str, Any] = {
    "agents": {"list": [{"id": "main", "default": True}, {"id": "work"}, {"id": "home"}]},
    "commands": {"ownerAllowFrom": ["memory:olga", "memory:otto"]},
    "session": {"dmScope": "per-channel-peer"},
    "bindings": [
        {"agentId": "home", "match": {"channel": "memory", "peer": {"kind": "dm"}}},
        {"agentId": "work", "match": {"channel": "memory", "peer": {"kind": "dm", "id": "otto"}}},
        {"agentId": "work", "match": {"channel": "discord", "guildId": "g1", "roles": ["admin"]}},
        {"agentId": "home", "match": {"channel": "discord", "guildId": "g1"}},
        {"agentId": "home", "match": {"channel": "slack", "teamId": "t1"}},
        {"agentId": "work", "match": {"channel": "slack", "accountId": "second"}},
        {"agentId": "work", "match": {"channel": "slack"}},
        {
            "agentId": "home",
            "match": {"channel": "discord", "peer": {"kind": "channel", "id": "c"}},
        },
    ],
    "broadcast": {"memory:all": ["work", "home"]},
    "channels": {
        "memory": {
            "dmPolicy": "open",
            "allowFrom": ["*"],
            "groupPolicy": "open",
            "groups": {"*": {"requireMention": False}},
        }
    },
}


async def answered(platform: FakePlatform, count: int) -> list[str]:
    with anyio.fail_after(60):
        while len(platform.received()) < count:  # noqa: ASYNC110 - the platform is a folder
            await anyio.sleep(0.02)
    return [message.text for message in platform.received()]


@pytest.mark.requirement("routing-binding-structure")
@pytest.mark.requirement("routing-peer-kind-without-id")
@pytest.mark.parametrize(
    ("words", "agent", "matched"),
    [
        ("--channel memory --peer dm:otto", "work", "binding.peer"),
        ("--channel memory --peer direct:ada", "home", "binding.peer.wildcard"),
        ("--channel memory --peer group:x", "main", "default"),
        ("--channel discord --peer channel:c --guild g1", "home", "binding.peer"),
        ("--channel discord --peer group:c", "home", "binding.peer"),
        ("--channel discord --peer channel:t --parent channel:c", "home", "binding.peer.parent"),
        (
            "--channel discord --peer channel:x --guild g1 --role admin",
            "work",
            "binding.guild+roles",
        ),
        ("--channel discord --peer channel:x --guild g1 --role other", "home", "binding.guild"),
        ("--channel discord --peer channel:x --guild g2 --role admin", "main", "default"),
        ("--channel slack --peer channel:x --team t1 --account second", "home", "binding.team"),
        ("--channel slack --peer channel:x --account second", "work", "binding.account"),
        ("--channel Slack --peer channel:x --account third", "work", "binding.channel"),
        ("--channel irc --peer channel:x", "main", "default"),
    ],
)
async def test_explain_names_agent_session_and_tier(
    tmp_path: Path, words: str, agent: str, matched: str
) -> None:
    file = tmp_path / "skerry.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(CONFIG))
    environ = {"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path)}
    completed = await run_command("routing", "explain", *words.split(), "--json", environ=environ)
    answer = json.loads(completed.stdout)
    assert (answer["agentId"], answer["matchedBy"]) == (agent, matched)
    assert answer["sessionKey"].startswith(f"agent:{agent}:")
    shown = await run_command("routing", "explain", *words.split(), environ=environ)
    assert matched in shown.stdout.decode()
    wrong = await run_command(
        "routing", "explain", "--channel", "x", "--peer", "y", environ=environ
    )
    assert (wrong.returncode, b"KIND:ID" in wrong.stderr) == (1, True)


async def test_what_explain_says_is_where_messages_go_and_a_broadcast_goes_to_all(
    tmp_path: Path,
) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, CONFIG) as (application, _):
        platform.say("hi", peer="otto", message_id="m1")
        platform.say("hi", peer="ada", message_id="m2")
        platform.say("all of you", peer="all", kind="group", message_id="m3")
        platform.say("all of you", peer="all", kind="group", message_id="m3")
        await answered(platform, 4)
        with anyio.fail_after(60):
            while platform.acknowledged() < 4:  # noqa: ASYNC110 - the platform is a folder
                await anyio.sleep(0.02)
        store = application.context.store
        rows = await store.read(lambda reader: reader.all("SELECT key FROM session ORDER BY key"))
    assert [key for (key,) in rows] == [
        "agent:home:memory:direct:ada",
        "agent:home:memory:group:all",
        "agent:work:memory:direct:otto",
        "agent:work:memory:group:all",
    ]
    assert len(platform.received()) == 4, "a message that arrives again is taken once by each"


@pytest.mark.requirement("agents-isolated-per-gateway")
async def test_no_agent_reads_what_another_has(tmp_path: Path) -> None:
    platform, model = FakePlatform(tmp_path / "platform"), ScriptedModel(echo)
    home = tmp_path / "home"
    async with whole_gateway(home, Hooks(), platform, CONFIG, model=model) as (application, _):
        config = application.settings.config
        fact = "the boat is called Heron"
        theirs = config.workspace(config.agents.ids[2])
        (theirs / "MEMORY.md").write_text(f"- {fact}\n")
        credentials = config.agent_dir(config.agents.ids[2])
        credentials.mkdir(parents=True, exist_ok=True)
        (credentials / "auth.json").write_text(fact)
        platform.say(fact, peer="olga", message_id="m1")  # the agent `home` is told
        await answered(platform, 1)
        tries = [
            f'call read {{"path": "{theirs}/MEMORY.md"}}',
            f'call read {{"path": "../{theirs.name}/MEMORY.md"}}',
            f'call read {{"path": "{credentials}/auth.json"}}',
            f'call edit {{"path": "{theirs}/MEMORY.md", "oldText": "Heron", "newText": "x"}}',
            'call session_search {"query": "boat Heron"}',
            'call memory_search {"query": "boat called"}',
            'call memory_get {"path": "MEMORY.md"}',
            'call sessions_history {"sessionKey": "agent:home:memory:direct:olga"}',
            "call sessions_list {}",
            'call sessions_send {"sessionKey": "agent:home:main", "message": "tell me"}',
        ]
        for number, text in enumerate(tries):
            platform.say(text, peer="otto", message_id=f"t{number}")
            await answered(platform, number + 2)
    results = [message.text for message in platform.received()[1:]]
    assert len(results) == len(tries)
    for text, result in zip(tries, results, strict=True):
        assert fact not in result, text
        assert "olga" not in result, text
    assert (theirs / "MEMORY.md").read_text() == f"- {fact}\n"
    assert "tell me" not in [request.last for request in model.requests]
