"""`kill -9` while something is forgotten: the next start goes on, and nothing of it is left."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import SkerryError
from skerry.testing.gateway import GatewayProcess, running_gateway

FACT = "The code of my locker is zebra quokka."
WORDS = (b"zebra", b"quokka")  # of letters that no hash and no time has
TEXT_ONLY = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
ALSO = pytest.mark.full("some minutes")
POINTS = ("forget.begun", "forget.cleaned", "forget.unindexed", "forget.finishing")
MORE_POINTS = (
    "forget.redacted",
    "forget.mirrored",
    "index.purged",
    "forget.swept",
    "forget.finished",
)


def holding(home: Path) -> Iterator[str]:
    for path in home.rglob("*"):
        if path.is_file() and not path.name.endswith("-shm"):
            with suppress(FileNotFoundError):
                data = path.read_bytes().lower()
                if any(word in data for word in WORDS):
                    yield str(path.relative_to(home))


async def ask(gateway: GatewayProcess, method: str, params: dict[str, Any]) -> dict[str, Any]:
    async with GatewayClient(gateway.address) as client:
        payload: dict[str, Any] = await client.request(method, params, timeout=90)
        return payload


async def told(gateway: GatewayProcess) -> None:
    message = {"sessionKey": "main", "idempotencyKey": "1", "message": f"Hi. {FACT} It rains."}
    await ask(gateway, "chat.send", message)
    await ask(gateway, "agent.wait", {"runId": "1", "timeoutMs": 60_000})
    await ask(gateway, "memory.write", {"text": f"Coffee. {FACT}"})  # a note goes whole
    await ask(gateway, "memory.write", {"text": "Tea."})
    await ask(gateway, "memory.sync", {"force": True})
    payload = await ask(gateway, "memory.search", {"query": "zebra"})
    assert payload["results"]


@pytest.mark.parametrize(
    ("point", "then"),
    [
        *((point, ()) for point in POINTS),
        # What goes on after a kill writes the index anew.
        pytest.param("forget.unindexed", ("index.rewriting",), marks=ALSO),
        *(pytest.param(point, (), marks=ALSO) for point in MORE_POINTS),
    ],
)
async def test_a_kill_at_any_point_leaves_nothing_of_it_after_the_next_start(
    tmp_path: Path, point: str, then: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home, config=TEXT_ONLY, first=("--fault", point)) as gateway:
        await told(gateway)
        assert list(holding(home))
        with suppress(SkerryError):
            await ask(gateway, "memory.forget", {"phrases": ["zebra quokka"]})
        with anyio.fail_after(60):
            assert await gateway.wait() == -signal.SIGKILL
        for fault in then:
            await gateway.start("--fault", fault)
            with anyio.fail_after(60):
                assert await gateway.wait() == -signal.SIGKILL
        await gateway.start()
        with anyio.move_on_after(60):
            while list(holding(home)):  # noqa: ASYNC110 - files of another process
                await anyio.sleep(0.05)
        assert list(holding(home)) == [], gateway.output
        history = await ask(gateway, "chat.history", {"sessionKey": "main"})
        assert "Hi. [forgotten] It rains." in str(history)
        payload = await ask(gateway, "memory.search", {"query": "tea"})
        assert [result["text"].startswith("- Tea.") for result in payload["results"]] == [True]
        again = await ask(gateway, "memory.forget", {"phrases": ["zebra quokka"], "dryRun": True})
        assert (again["messages"], again["runs"], again["lines"]) == (0, 0, [])
        assert await gateway.stop() == 0
    assert list(holding(home)) == []
