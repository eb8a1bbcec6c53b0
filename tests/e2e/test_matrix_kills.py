"""Kills at random at a real homeserver: every message is answered once and in order."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from skerry.testing.gateway import running_gateway
from tests.e2e.test_matrix import config, joined, named, read
from tests.support.synapse import Person, synapse

pytestmark = pytest.mark.full("Synapse")

KILLS = int(os.environ.get("SKERRY_KILLS", "8"))
"""Number of kills; the figure in the guide is of 200."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


async def test_kills_at_random_lose_and_double_nothing(tmp_path: Path, url: str) -> None:
    bot, alice = Person(url, "bot"), Person(url, "alice")
    configuration = config(bot, dmPolicy="open", allowFrom=["*"])
    rng = random.Random(7)  # noqa: S311 - reproducible, no secret
    names: list[str] = []
    async with running_gateway(home=tmp_path / "state", config=configuration) as gateway:
        room = alice.direct(bot)
        await joined(alice, room, 2)
        alice.say(room, "begin")
        await read(alice, room, bot, 1)
        for _ in range(KILLS):
            for _ in range(rng.randint(1, 3)):
                names.append(f"n{len(names)}.")
                await anyio.to_thread.run_sync(alice.say, room, names[-1])
            await anyio.sleep(rng.uniform(0, 1.5))
            await gateway.kill()
            await gateway.start()
        await named(alice, room, bot, names)
        assert await gateway.stop() == 0
    answers = alice.read(room, bot)[1:]
    order = [name for text in answers for name in names if name in text]
    assert order == names, answers
