"""At a real homeserver: an answer that grows over a kill, its file, and the reaction before it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.e2e.test_matrix import config, joined
from tests.support.synapse import Person, synapse

pytestmark = pytest.mark.full("Synapse")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
FIRST = "The tide is high at nine in the morning."
LAST = " Take boots."


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


async def sent(person: Person, room: str, bot: Person) -> list[dict[str, Any]]:
    """Returns the messages and reactions of the bot in order, invitations aside."""
    rows = await anyio.to_thread.run_sync(person.events, room, bot.id)
    return [row for row in rows if row["type"] in {"m.room.message", "m.reaction"}]


async def until(person: Person, room: str, bot: Person, count: int) -> list[dict[str, Any]]:
    with anyio.fail_after(120):
        while True:
            rows = await sent(person, room, bot)
            if len(rows) >= count:
                return rows
            await anyio.sleep(0.1)


async def test_an_answer_grows_over_a_kill_and_brings_its_file(tmp_path: Path, url: str) -> None:
    bot, alice = Person(url, "bot"), Person(url, "alice")
    gate, held = ReplyGate(), ReplyGate()
    script: list[list[HttpStep]] = [
        [FIRST, gate],
        [FIRST, held, f"{LAST}\nMEDIA: chart.png"],
    ]
    fields = config(bot, dmPolicy="open", allowFrom=["*"], streaming="partial")
    fields |= {"commands": {"ownerAllowFrom": [f"matrix:{alice.id}"]}}
    fields |= {"messages": {"ackReaction": "👀", "ackReactionScope": "direct"}}
    home = tmp_path / "state"
    (home / "workspace").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    (home / "workspace" / "chart.png").write_bytes(PNG)
    async with (
        StubModelServer(script) as model,
        running_gateway(model=model.base_url, home=home, config=fields) as gateway,
    ):
        room = alice.direct(bot)
        await joined(alice, room, 2)
        asked = alice.say(room, "when?")
        rows = {row["type"]: row for row in await until(alice, room, bot, 2)}
        reaction, begun = rows["m.reaction"], rows["m.room.message"]
        assert reaction["content"]["m.relates_to"] == {
            "rel_type": "m.annotation",
            "event_id": asked,
            "key": "👀",
        }
        assert begun["content"]["body"] == FIRST
        await gateway.kill()
        gate.open()
        await gateway.start()
        held.open()
        *edits, file = (await until(alice, room, bot, 4))[2:]
        assert file["content"]["msgtype"] == "m.image"
        assert file["content"]["filename"] == "chart.png"
        for edit in edits:
            relation = edit["content"]["m.relates_to"]
            assert (relation["rel_type"], relation["event_id"]) == ("m.replace", begun["event_id"])
        assert edits[-1]["content"]["m.new_content"]["body"] == FIRST + LAST
        assert await gateway.stop() == 0
