"""Everything at once under `kill -9`: queue modes, resets, fail-over, compaction, a bad platform.

The gateway is the process with a state to lose. It has two roles, for each of which every named
fault point is tried: it works, or it takes up what another left. The child with the built-in model
keeps nothing; its kills are in tests/unit/features/embedded_model/test_provider.py.
"""

import os
import re
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import msgspec
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer
from tests.support.chaos import Gateway, all_taken, quiet, until
from tests.support.defects import DEFECTS
from tests.support.mix import Mind, config, disagreements, faults, people, turns
from tests.support.moments import Moments, life

KILLS = int(os.environ.get("SKERRY_KILLS", "20"))
SEED = int(os.environ.get("SKERRY_SEED", "20260207"))
SOURCE = Path(__file__).parents[2] / "src" / "skerry"
BROKEN_GATEWAY = "tests.support.defects"
REACHED = {
    name
    for file in SOURCE.rglob("*.py")
    for name in re.findall(r'reach\("([^"]+)"\)', file.read_text())
}
BESIDE = (
    "approval.",
    "cron.",
    "exchange.",
    "forget.",
    "heartbeat.",
    "index.",
    "internal.",
    "pairing.",
    "subagent.",
    "swap.",
)
"""Points that no message of the mix passes: those of `ELSEWHERE` have kills of their own."""
ELSEWHERE = (
    "e2e/test_approvals_kills.py",
    "e2e/test_cron_kills.py",
    "e2e/test_exchange.py",
    "e2e/test_heartbeat_kills.py",
    "e2e/test_forgetting_kills.py",
    "e2e/test_pairing.py",
    "e2e/test_subagents.py",
    "unit/features/memory/test_index_faults.py",
    "unit/runtime/test_internal_runs.py",
)
POINTS = sorted(name for name in REACHED if not name.startswith(BESIDE))


@asynccontextmanager
async def mixed(
    folder: Path, mind: Mind, *arguments: str, first: tuple[str, ...] = (), **more: str
) -> AsyncGenerator[tuple[GatewayProcess, FakePlatform]]:
    """Runs a gateway between a platform and a model that both outlive it."""
    platform = FakePlatform(folder / "platform")
    async with StubModelServer(mind, events_per_text=4, delay=0.015) as model:
        running = running_gateway(
            home=folder / "home",
            config=config(model.base_url),
            arguments=["--model", "configured", "--platform", str(platform.folder), *arguments],
            first=first,
            **more,
        )
        async with running as gateway:
            yield gateway, platform


async def violations(gateway: GatewayProcess, platform: FakePlatform) -> list[str]:
    """Waits until all runs have ended, ends the gateway, and returns the violated promises."""
    await all_taken(platform)
    await quiet(gateway)
    await gateway.kill()  # the mirror is behind now; the next start brings it up
    await gateway.start()
    assert await gateway.stop() == 0
    written, received, taken = platform.inbox(), platform.received(), turns(gateway.home)
    wrong = faults(written, received, taken)
    return wrong + await disagreements(gateway.home, written, received, taken)


@pytest.mark.timeout(300 + 60 * KILLS)
async def test_random_kills_with_everything_on_lose_and_double_nothing(tmp_path: Path) -> None:
    dice = Random(SEED)  # noqa: S311 - the same kills at every run
    mind = Mind(Random(SEED + 2))  # noqa: S311
    async with mixed(tmp_path, mind, "--unreliable", "0.06") as (gateway, platform):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(people, platform, Random(SEED + 1))  # noqa: S311
            for _ in range(KILLS):
                await anyio.sleep(dice.uniform(0, 0.8))
                await gateway.kill()
                if dice.random() < 0.15:  # sometimes in the middle of a start
                    with anyio.move_on_after(dice.uniform(0.1, 1.0)):
                        await gateway.start()
                    await gateway.kill()
                await gateway.start()
            tasks.cancel_scope.cancel()
        wrong = await violations(gateway, platform)
    assert wrong == [], f"SKERRY_SEED={SEED}"
    written = len(platform.inbox())
    print(f"{KILLS} kills, {written} messages, {mind.failed} failures of a model, seed {SEED}")  # noqa: T201
    assert mind.failed > 0


async def visit(gateway: Gateway, platform: FakePlatform, name: str) -> None:
    """Passes every fault point: a message with a tool call, an answer, a reset, an archive."""
    platform.say(f"look {name}", peer="ann", message_id=name)

    def answered() -> bool:
        return any(
            message.in_reply_to == name and "That is all" in message.text
            for message in platform.received()
        )

    await until(answered)
    await until(lambda: list(gateway.home.glob("agents/main/sessions/*.jsonl")))
    async with GatewayClient(gateway.address) as client:
        await client.request("sessions.reset", {"key": "agent:main:memory:direct:ann"})
    await anyio.sleep_forever()  # the mirror comes last


FIRST_OF_EACH = {f"{point}:1" for point in POINTS}


async def lived(moments: Moments, name: str, base_url: str) -> None:
    """Runs a life with a message that passes every fault point, until the moments were reached."""
    async with life(moments.folder, moments.reach, config=config(base_url)) as living:
        moments.turn = living.gateway.context.store._writer.turn
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(visit, living, living.platform, name)
            await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)
            tasks.cancel_scope.cancel()


async def lives(folder: Path, point: str, first: Path, base_url: str) -> list[str]:
    """Takes up the first life as it was at a point, and the second likewise; returns faults."""
    second = shutil.copytree(first, folder / "second")
    moments = Moments(second, folder / "moments", {point})
    await lived(moments, "m2", base_url)
    third = shutil.copytree(moments[point], folder / "third")
    async with life(third) as living:
        await all_taken(living.platform)
        await quiet(living)
    platform = FakePlatform(third / "platform")
    written, received, taken = platform.inbox(), platform.received(), turns(third / "home")
    wrong = faults(written, received, taken)
    return wrong + await disagreements(third / "home", written, received, taken)


@pytest.fixture(scope="module")
def first_life(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    """A life as it was at the first time of each point."""
    folder = tmp_path_factory.mktemp("life")
    moments = Moments(folder / "now", folder / "moments", FIRST_OF_EACH)

    async def run() -> None:
        async with StubModelServer(Mind(Random(SEED), rate=0)) as model:  # noqa: S311 - no faults
            await lived(moments, "m1", model.base_url)

    anyio.run(run)
    return moments


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_each_named_point_in_each_role_loses_and_doubles_nothing(
    tmp_path: Path, first_life: Moments, point: str
) -> None:
    """A gateway is killed at work, and again with something to take up."""
    async with StubModelServer(Mind(Random(SEED), rate=0)) as model:  # noqa: S311 - no faults
        first = shutil.copytree(first_life[f"{point}:1"], tmp_path / "first")
        file = first / "home" / "skerry.json"
        file.write_bytes(msgspec.json.encode(config(model.base_url)))
        assert await lives(tmp_path, f"{point}:1", first, model.base_url) == []


def test_every_point_that_a_message_does_not_pass_has_a_kill_elsewhere() -> None:
    tests = Path(__file__).parents[1]
    killed = "".join((tests / name).read_text("utf-8") for name in ELSEWHERE)
    assert [
        name for name in REACHED - set(POINTS) if not re.search(rf'"{re.escape(name)}[:"]', killed)
    ] == []


def test_the_named_points_are_read_from_the_source() -> None:
    parts = {name.partition(".")[0] for name in POINTS}
    assert parts >= {"dispatch", "delivery", "store", "mirror"}


FIRST = "look m1"  # a block of it is sent before its tool runs
BROKEN = [
    ("forgets what was open", "dispatch.accepted:1", [("ann", FIRST)], "lost"),
    ("closes without a word", "delivery.after-send:1", [("ann", FIRST)], "lost"),
    ("closes without an entry", "delivery.after-send:1", [("ann", FIRST)], "transcript"),
    (
        "keeps no answer",
        "delivery.after-send:3",
        [("cat", "/queue followup"), ("cat", "please m1"), ("cat", "please m2")],
        "transcript",
    ),
    ("takes a message again", "dispatch.accepted:1", [("ann", "please m1")], "twice"),
    ("sends the last part first", "delivery.before-send:1", [("ann", FIRST)], "torn"),
    (
        "has one conversation for all",
        "delivery.after-send:1",
        [("ann", FIRST), ("ben", "please m2")],
        "mixed",
    ),
    (
        "takes up the last first",
        "dispatch.accepted:4",
        [("cat", "/queue followup"), *(("cat", f"please m{n}") for n in (1, 2, 3))],
        "order",
    ),
]


@pytest.mark.parametrize(("defect", "fault", "texts", "promise"), BROKEN)
async def test_a_planted_defect_is_found(
    tmp_path: Path, defect: str, fault: str, texts: list[tuple[str, str]], promise: str
) -> None:
    mind = Mind(Random(SEED), rate=0)  # noqa: S311 - here the defect is the only fault
    planted = mixed(
        tmp_path, mind, "--defect", defect, first=("--fault", fault), program=BROKEN_GATEWAY
    )
    async with planted as (gateway, platform):
        for peer, text in texts:
            platform.say(text, peer=peer, message_id=text.split()[-1])
        with anyio.fail_after(60):
            assert await gateway.wait() == -signal.SIGKILL
        await gateway.start()
        wrong = await violations(gateway, platform)
    assert promise in {one.partition(":")[0] for one in wrong}, wrong


def test_every_defect_is_tried() -> None:
    assert {one[0] for one in BROKEN} == set(DEFECTS)
