"""`kill -9` at every moment that matters: each message is answered once, or announced once."""

import signal
from pathlib import Path

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.runtime.delivery import MISSING
from skerry.runtime.finalize import INTERRUPTED as INTERRUPTION
from skerry.testing.channel import Delivered
from skerry.testing.gateway import GatewayProcess
from tests.support.chaos import all_ended, announced, disagreements, faults, rig, until

LOOK = "look m1"  # a message whose answer needs a tool
WRITE = "write m1"  # one whose answer needs a tool that has an effect

ANSWERED: list[str] = []
INTERRUPTED = ["m1"]


async def killed(gateway: GatewayProcess) -> None:
    with anyio.fail_after(60):
        assert await gateway.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("text", "fault", "told"),
    [
        pytest.param("m1", "store.before-commit:1", ANSWERED, id="before the message is taken"),
        pytest.param("m1", "store.after-commit:1", ANSWERED, id="when the message is taken"),
        pytest.param("m1", "dispatch.accepted:1", ANSWERED, id="when it is accepted"),
        pytest.param("m1", "store.before-commit:2", ANSWERED, id="before the answer is stored"),
        pytest.param("m1", "store.after-commit:2", ANSWERED, id="when the answer is stored"),
        pytest.param("m1", "store.after-commit:3", ANSWERED, id="when the part is marked"),
        pytest.param("m1", "delivery.before-send:1", ANSWERED, id="before it is sent"),
        pytest.param("m1", "delivery.after-send:1", ANSWERED, id="when it was sent"),
        pytest.param("m1", "store.after-commit:4", ANSWERED, id="when it is marked as sent"),
        pytest.param(LOOK, "store.before-commit:2", ANSWERED, id="before the call is stored"),
        pytest.param(LOOK, "store.after-commit:2", ANSWERED, id="before the tool runs"),
        pytest.param(LOOK, "store.before-commit:3", ANSWERED, id="when the tool has run"),
        pytest.param(LOOK, "store.after-commit:3", ANSWERED, id="when its result is stored"),
        pytest.param(LOOK, "store.before-commit:4", ANSWERED, id="before its answer is stored"),
        pytest.param(LOOK, "store.after-commit:4", ANSWERED, id="when its answer is stored"),
        pytest.param(WRITE, "store.after-commit:2", INTERRUPTED, id="before a tool writes"),
        pytest.param(WRITE, "store.before-commit:3", INTERRUPTED, id="when a tool has written"),
        pytest.param(WRITE, "store.after-commit:3", INTERRUPTED, id="when the file is on record"),
        pytest.param(WRITE, "store.after-commit:4", ANSWERED, id="when that it wrote is stored"),
        pytest.param(LOOK, "delivery.after-send:1", ANSWERED, id="between the parts of a reply"),
    ],
)
async def test_a_kill_loses_and_doubles_nothing(
    tmp_path: Path, text: str, fault: str, told: list[str]
) -> None:
    async with rig(tmp_path, "--fault", fault) as (gateway, platform, _):
        platform.say(text, message_id="m1")
        await killed(gateway)
        platform.say("m2", message_id="m2")
        await gateway.start()
        await all_ended(platform)
        assert await gateway.stop() == 0
        assert faults(platform.inbox(), platform.received()) == []
        assert announced(platform.received()) == told
        assert await disagreements(gateway.home) == []


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
        await until(lambda: [one for one in platform.received() if one.text == MISSING])
        assert await gateway.stop() == 0
        said = [one for one in platform.received() if one.text != MISSING]
        assert len(platform.received()) == len(said) + 1
        assert faults(platform.inbox(), said) == []


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
    received = [Delivered("alice", texts.get(text, text), name, nonce) for name, text, nonce in log]
    assert [one.partition(":")[0] for one in faults(written, received)] == promises
