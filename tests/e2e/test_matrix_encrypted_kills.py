"""Kills and restores of a gateway in encrypted rooms: nothing is lost, doubled or unreadable."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.e2e.test_matrix import command_answer, config, connected, joined, killed, read
from tests.support.nio import Nio, client, texts
from tests.support.synapse import Person, synapse

pytestmark = pytest.mark.full("Synapse and matrix-nio")

OPEN = {"dmPolicy": "open", "allowFrom": ["*"]}
POINTS = [
    *(f"store.before-commit:{number}" for number in range(1, 5)),
    "store.after-commit:2",
    "delivery.before-send",
    "delivery.after-send",
]
FIRST = ["store.after-commit:1", "store.before-commit:2", "store.after-commit:3"]
"""Points before, between and after the uploads of the first keys."""
KILLS = int(os.environ.get("SKERRY_KILLS", "4"))
"""Number of kills; the figure in the guide is of 100."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


@pytest.fixture(scope="module")
def nio(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nio]:
    with client(Person(url, "alice"), tmp_path_factory.mktemp("nio")) as nio:
        yield nio


async def once_and_in_order(nio: Nio, room: str, bot: Person, names: list[str]) -> None:
    """Fails if a name was not answered once, in order, in a message that was decrypted."""
    with anyio.fail_after(120):
        while True:
            answers = texts(await nio.read(room, bot, 1))
            order = [name for text in answers for name in names if name in text]
            if set(order) >= set(names):
                break
            await anyio.sleep(0.1)
    assert order == names, answers
    assert max(Counter(order).values()) == 1


async def test_a_kill_at_each_point_loses_and_doubles_nothing(
    tmp_path: Path, url: str, nio: Nio
) -> None:
    bot = Person(url, "bot")
    names: list[str] = []
    async with running_gateway(home=tmp_path / "state", config=config(bot, **OPEN)) as gateway:
        await connected(tmp_path / "state")
        room = await nio.do("create", invite=[bot.id])
        await joined(nio.person, room, 2)
        for point in POINTS:
            assert await gateway.stop() == 0
            await nio.do("forget", room=room)  # the next message brings a key of its own
            for _ in range(2):
                names.append(f"n{len(names)}.")
                await nio.say(room, names[-1])
            await killed(gateway, point)
            await gateway.start()
            await once_and_in_order(nio, room, bot, names)
        assert await gateway.stop() == 0
    events = nio.person.events(room, bot.id)
    sent = [row for row in events if row["type"] == "m.room.encrypted"]
    assert len(sent) == len(names)
    assert not [row for row in events if row["type"] == "m.room.message"]


@pytest.mark.parametrize("point", FIRST)
async def test_a_kill_while_the_device_gets_its_keys_costs_nothing(
    tmp_path: Path, url: str, nio: Nio, point: str
) -> None:
    bot, home = Person(url, "bot"), tmp_path / "state"
    async with running_gateway(home=home, config=config(bot, **OPEN)) as gateway:
        assert await gateway.stop() == 0
    bot = await anyio.to_thread.run_sync(bot.another_device)
    (home / "skerry.json").write_bytes(msgspec.json.encode(config(bot, **OPEN)))
    await killed(gateway, point)
    assert not gateway.alive
    await gateway.start()
    await connected(home)
    room = await nio.do("create", invite=[bot.id])
    await joined(nio.person, room, 2)
    await nio.say(room, "hello")
    assert texts(await nio.read(room, bot, 1)) == ["echo: hello"]
    status = await command_answer(gateway, "channels", "status")
    assert status["channelAccounts"]["matrix"][0]["lastError"] is None
    await gateway.end()


async def test_kills_at_random_lose_and_double_nothing(tmp_path: Path, url: str, nio: Nio) -> None:
    bot = Person(url, "bot")
    rng = random.Random(11)  # noqa: S311 - reproducible, no secret
    names: list[str] = []
    async with running_gateway(home=tmp_path / "state", config=config(bot, **OPEN)) as gateway:
        await connected(tmp_path / "state")
        room = await nio.do("create", invite=[bot.id])
        await joined(nio.person, room, 2)
        for _ in range(KILLS):
            if rng.random() < 0.5:
                await nio.do("forget", room=room)
            for _ in range(rng.randint(1, 3)):
                names.append(f"m{len(names)}.")
                await nio.say(room, names[-1])
            await anyio.sleep(rng.uniform(0, 1.5))
            await gateway.kill()
            await gateway.start()
        await once_and_in_order(nio, room, bot, names)
        assert await gateway.stop() == 0


async def state(gateway: GatewayProcess) -> Any:
    """Returns the row of the account in the answer of `skerry channels status`."""
    (account,) = (await command_answer(gateway, "channels", "status"))["channelAccounts"]["matrix"]
    return account


async def rolled_back(gateway: GatewayProcess, nio: Nio, bot: Person) -> str:
    """Talks in an encrypted room, and puts an older database in place; returns the room."""
    database, copy = gateway.home / "state.sqlite", gateway.home / "copy"
    room = str(await nio.do("create", invite=[bot.id]))
    await joined(nio.person, room, 2)
    for number in (1, 2):
        await nio.say(room, f"{number}")
        await nio.read(room, bot, number)
        assert await gateway.stop() == 0
        if number == 1:
            shutil.copy2(database, copy)
            await gateway.start()
    shutil.copy2(copy, database)
    return room


async def test_a_restored_database_uses_no_key_twice_and_asks_for_a_new_device(
    tmp_path: Path, url: str, nio: Nio
) -> None:
    bot, home = Person(url, "bot"), tmp_path / "state"
    async with running_gateway(home=home, config=config(bot, **OPEN)) as gateway:
        await connected(home)
        room = await rolled_back(gateway, nio, bot)
        await gateway.start()
        await nio.say(room, "three")
        plain = nio.person.direct(bot)
        await joined(nio.person, plain, 2)
        nio.person.say(plain, "still there?")
        assert (await read(nio.person, plain, bot, 1))[-1] == "echo: still there?"
        account = await state(gateway)
        assert "older than the last use" in account["lastError"]
        assert "accessToken" in account["remedy"]
        assert len(await nio.read(room, bot, 2)) == 2
        assert await gateway.stop() == 0
    again = await anyio.to_thread.run_sync(bot.another_device)
    async with running_gateway(home=home, config=config(again, **OPEN)) as gateway:
        with anyio.fail_after(120):
            while again.device not in (await state(gateway)).get("about", ""):  # noqa: ASYNC110 - of another process
                await anyio.sleep(0.1)
        await nio.do("forget", room=room)
        await nio.say(room, "four")
        assert texts(await nio.read(room, bot, 3))[2:] == ["echo: four"]
        assert await gateway.stop() == 0
