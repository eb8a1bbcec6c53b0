"""`kill -9` at every moment that matters: each message is answered once, or announced once."""

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.runtime.delivery import MISSING
from skerry.runtime.finalize import INTERRUPTED as INTERRUPTION
from skerry.store import DATABASE
from skerry.testing.channel import DeliveredMessage, FakePlatform
from skerry.testing.gateway import GatewayProcess
from tests.support.chaos import (
    MAY,
    ONE_BY_ONE,
    all_ended,
    announced,
    disagreements,
    faults,
    rig,
    until,
)
from tests.support.moments import Moments, life, outcome_of, scripted

LOOK = "look m1"  # a message whose answer needs a tool
WRITE = "write m1"  # one whose answer needs a tool that has an effect

ANSWERED: list[str] = []
INTERRUPTED = ["m1"]


async def killed(gateway: GatewayProcess) -> None:
    with anyio.fail_after(60):
        assert await gateway.wait() == -signal.SIGKILL


KILLS = {
    "before the message is taken": ("m1", "store.before-commit:1", ANSWERED),
    "when the message is taken": ("m1", "store.after-commit:1", ANSWERED),
    "when it is accepted": ("m1", "dispatch.accepted:1", ANSWERED),
    "before the answer is stored": ("m1", "store.before-commit:2", ANSWERED),
    "when the answer is stored": ("m1", "store.after-commit:2", ANSWERED),
    "when the part is marked": ("m1", "store.after-commit:3", ANSWERED),
    "before it is sent": ("m1", "delivery.before-send:1", ANSWERED),
    "when it was sent": ("m1", "delivery.after-send:1", ANSWERED),
    "when it is marked as sent": ("m1", "store.after-commit:4", ANSWERED),
    "before the call is stored": (LOOK, "store.before-commit:2", ANSWERED),
    "before the tool runs": (LOOK, "store.after-commit:2", ANSWERED),
    "when the tool has run": (LOOK, "store.before-commit:3", ANSWERED),
    "when its result is stored": (LOOK, "store.after-commit:3", ANSWERED),
    "before its answer is stored": (LOOK, "store.before-commit:4", ANSWERED),
    "when its answer is stored": (LOOK, "store.after-commit:4", ANSWERED),
    "before a tool writes": (WRITE, "store.after-commit:2", INTERRUPTED),
    "when a tool has written": (WRITE, "store.before-commit:3", INTERRUPTED),
    "when the file is on record": (WRITE, "store.after-commit:3", INTERRUPTED),
    "when that it wrote is stored": (WRITE, "store.after-commit:4", ANSWERED),
    "between the parts of a reply": (LOOK, "delivery.after-send:1", ANSWERED),
}
"""The moments of a kill: what was asked, the point, and which messages are announced then."""
REAL = ("before the message is taken", "when the answer is stored", "when it was sent")
"""Those in which a process is killed, to see that it leaves what the copy of a moment has."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Moments]:
    """Gives a first life in which a message was answered, as it was at each of its moments."""

    @cache
    def lived(text: str) -> Moments:
        folder = tmp_path_factory.mktemp("life")
        expected = {fault for asked, fault, _ in KILLS.values() if asked == text}
        moments = Moments(folder / "now", folder / "moments", expected)
        anyio.run(first_life, moments, text)
        return moments

    return lived


async def first_life(moments: Moments, text: str) -> None:
    """Answers a message until every moment of the table was reached."""
    async with life(moments.folder, moments.reach, scripted(), ONE_BY_ONE | MAY) as first:
        moments.turn = first.gateway.context.store._writer.turn
        first.platform.say(text, message_id="m1")
        await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)


async def next_life(folder: Path) -> list[str]:
    """Starts from the state after a kill; returns the faults, and the announced messages."""
    async with life(folder, models=scripted()) as second:
        platform = second.platform
        if not platform.inbox():
            platform.say("m1", message_id="m1")
        platform.say("m2", message_id="m2")
        await all_ended(platform)
    assert faults(platform.inbox(), platform.received()) == []
    assert await disagreements(folder / "home") == []
    return announced(platform.received())


@pytest.mark.parametrize(("text", "fault", "texts"), KILLS.values(), ids=KILLS)
def test_a_kill_loses_and_doubles_nothing(
    lives: Callable[[str], Moments], tmp_path: Path, text: str, fault: str, texts: list[str]
) -> None:
    moment = lives(text)[fault]
    copy = shutil.copytree(moment, tmp_path / "copy")
    # The record of a file and the result of its tool may be in one transaction.
    stored = has_result(shutil.copytree(moment, tmp_path / "read"))
    assert anyio.run(next_life, copy) == (ANSWERED if stored else texts)


def has_result(folder: Path) -> bool:
    """Returns whether the transcript has the result of a tool call."""
    with closing(sqlite3.connect(folder / "home" / DATABASE)) as connection:
        bodies = connection.execute("SELECT body FROM entry").fetchall()
    return any(b'"toolResult"' in body for (body,) in bodies)


@pytest.mark.parametrize(("text", "fault", "texts"), [KILLS[one] for one in REAL], ids=REAL)
async def test_a_process_that_is_killed_leaves_what_the_copy_of_that_moment_has(
    tmp_path: Path, lives: Callable[[str], Moments], text: str, fault: str, texts: list[str]
) -> None:
    moments = await anyio.to_thread.run_sync(lives, text)
    async with rig(tmp_path, "--fault", fault) as (gateway, platform, _):
        platform.say(text, message_id="m1")
        await killed(gateway)
        assert outcome_of(tmp_path) == outcome_of(moments[fault])
        platform.say("m2", message_id="m2")
        await gateway.start()
        await all_ended(platform)
        assert await gateway.stop() == 0
        assert faults(platform.inbox(), platform.received()) == []
        assert announced(platform.received()) == texts
        assert await disagreements(gateway.home) == []


@pytest.mark.parametrize(
    ("defect", "moment", "promise"),
    [
        ("DELETE FROM outbox", "before it is sent", "lost"),
        ("UPDATE outbox SET state = 'pending'", "when it was sent", "doubled"),
    ],
)
def test_a_moment_whose_state_is_spoiled_is_noticed(
    lives: Callable[[str], Moments], tmp_path: Path, defect: str, moment: str, promise: str
) -> None:
    text, fault, _ = KILLS[moment]
    copy = shutil.copytree(lives(text)[fault], tmp_path / "copy")
    with closing(sqlite3.connect(copy / "home" / DATABASE)) as database:
        database.execute(defect)
        database.commit()
    anyio.run(spoiled_life, copy)
    platform = FakePlatform(copy / "platform")
    assert faults(platform.inbox(), platform.received())[0].startswith(promise)


async def spoiled_life(folder: Path) -> None:
    async with life(folder, models=scripted()) as second:
        platform = second.platform
        platform.say("m2", message_id="m2")
        await until(lambda: any(message.text.endswith("m2") for message in platform.received()))


# The checker can fail: defects that a kill brings out, planted through the adapter's own port


@pytest.mark.parametrize(
    ("says", "fault", "promise"),
    [
        pytest.param("absent", "delivery.after-send:1", "doubled", id="sends again on a guess"),
        pytest.param("delivered", "delivery.before-send:1", "lost", id="marks what was not sent"),
    ],
)
async def test_a_platform_that_lies_about_a_part_is_noticed(
    tmp_path: Path, says: str, fault: str, promise: str
) -> None:
    lying = ("--settles", says)
    async with rig(tmp_path, "--fault", fault, arguments=lying) as (gateway, platform, _):
        platform.say("m1", message_id="m1")
        await killed(gateway)
        await gateway.start()
        platform.say("m2", message_id="m2")
        await until(
            lambda: platform.received()[-1:] and platform.received()[-1].text.endswith("m2")
        )
        assert await gateway.stop() == 0
        assert faults(platform.inbox(), platform.received())[0].startswith(promise)


async def test_a_part_that_nobody_can_settle_is_left_to_a_person(tmp_path: Path) -> None:
    blind = ("--settles", "unknown")
    async with rig(tmp_path, "--fault", "delivery.after-send:1", arguments=blind) as (
        gateway,
        platform,
        _,
    ):
        platform.say("m1", message_id="m1")
        await killed(gateway)
        await gateway.start()
        platform.say("m2", message_id="m2")
        await all_ended(platform)
        async with GatewayClient(gateway.address) as client:
            assert (await client.request("status"))["undelivered"] == {"unknown": 1}
        await until(lambda: [message for message in platform.received() if message.text == MISSING])
        assert await gateway.stop() == 0
        messages = [message for message in platform.received() if message.text != MISSING]
        assert len(platform.received()) == len(messages) + 1
        assert faults(platform.inbox(), messages) == []


GOOD = [("m1", "m1", "r1/0/0"), ("m2", "looking into it", "r2/0/0"), ("m2", "m2", "r2/1/0")]


@pytest.mark.parametrize(
    ("log", "promises"),
    [
        pytest.param(GOOD, [], id="nothing is wrong"),
        pytest.param(GOOD[:2], ["lost"], id="half an answer"),
        pytest.param(GOOD[1:], ["lost"], id="no answer"),
        pytest.param([*GOOD, GOOD[2]], ["doubled", "twice", "torn"], id="a part twice"),
        pytest.param([*GOOD, ("m2", "m2", "r3/0/0")], ["twice", "twice", "torn"], id="two runs"),
        pytest.param([*GOOD, ("m2", "", "r2/2/0")], ["twice"], id="answered, announced"),
        pytest.param([GOOD[0], GOOD[2], GOOD[1]], ["torn"], id="parts swapped"),
        pytest.param([*GOOD[1:], GOOD[0]], ["order"], id="replies swapped"),
        pytest.param([*GOOD, ("m3", "m3", "r3/0/0")], ["strange", "order"], id="never asked"),
    ],
)
def test_the_checker_names_the_broken_promise(
    log: list[tuple[str, str, str]], promises: list[str]
) -> None:
    texts = {"m1": "answer to m1", "m2": "answer to m2", "": INTERRUPTION}
    written = [{"id": name, "peer": "alice"} for name in ("m1", "m2")]
    received = [
        DeliveredMessage("alice", texts.get(text, text), name, nonce) for name, text, nonce in log
    ]
    assert [fault.partition(":")[0] for fault in faults(written, received)] == promises
