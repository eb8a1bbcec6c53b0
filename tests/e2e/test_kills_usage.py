"""`kill -9` between the steps of a turn: the ledger has each call that the model server counted."""

import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import ClientError
from skerry.model.message import ToolCall
from skerry.store import DATABASE, Reader, usage
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.support.chaos import quiet

KILLS = 8


def answers(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Looks something up first: each question costs two calls."""
    if body["messages"][-1]["role"] == "tool":
        return ["That is all. " * 20]
    return ["I look. ", ToolCall("c1", "session_search", {"query": "boat"})]


async def ask(gateway: GatewayProcess, number: int) -> None:
    """Asks, and stops waiting when the gateway dies."""
    with suppress(ClientError):
        async with GatewayClient(gateway.address) as client:
            params = {"sessionKey": "main", "message": "boat?", "idempotencyKey": f"k{number}"}
            await client.request("agent", params, timeout=None, expect_final=True)


def ledger(home: Path) -> list[tuple[str, int]]:
    """Returns outcome and tokens of each call that is booked."""
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        rows = connection.execute("SELECT outcome, input + output + cache_read FROM model_call")
        return rows.fetchall()


def check(home: Path, server: StubModelServer, kills: int) -> None:
    """Compares the ledger with the count of the server.

    A kill may come between the line of a call and its request, which the server then never got.
    """
    rows = ledger(home)
    lost = [tokens for outcome, tokens in rows if outcome == "lost"]
    whole = [tokens for outcome, tokens in rows if outcome == "ok"]
    assert server.count <= len(rows) <= server.count + len(lost)
    assert len(lost) <= kills
    assert len(lost) + len(whole) == len(rows)
    assert not any(lost)
    assert len(set(whole)) == 1
    assert whole[0] > 0
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        sums = usage.total(usage.daily(Reader(connection), "0", "9").values())
        assert (sums.calls, sums.uncounted, sums.tokens) == (len(rows), len(lost), sum(whole))


@pytest.mark.parametrize(
    ("point", "number"),
    [
        ("store.before-commit", 1),
        ("store.after-commit", 2),
        ("store.before-commit", 3),
        ("store.after-commit", 4),
        ("store.before-commit", 5),
    ],
)
async def test_a_kill_at_a_commit_takes_no_call_from_the_ledger(
    tmp_path: Path, point: str, number: int
) -> None:
    async with (
        StubModelServer(answers) as server,
        running_gateway(model=server.base_url, home=tmp_path / "home") as gateway,
    ):
        await ask(gateway, 0)
        assert await gateway.stop() == 0
        await gateway.start("--fault", f"{point}:{number}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, gateway, 1)
            with anyio.fail_after(60):
                assert await gateway.wait() == -signal.SIGKILL
            tasks.cancel_scope.cancel()
        await gateway.start()
        await ask(gateway, 1)
        await quiet(gateway)
        assert await gateway.stop() == 0
        assert server.count >= 4
        check(gateway.home, server, 1)


async def test_kills_in_streamed_answers_leave_every_call_in_the_ledger(tmp_path: Path) -> None:
    dice = Random(11)  # noqa: S311 - the same kills at every run
    async with (
        StubModelServer(answers, events_per_text=8, delay=0.01) as server,
        running_gateway(model=server.base_url, home=tmp_path / "home") as gateway,
    ):
        for number in range(KILLS):
            before = server.count
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, gateway, number)
                with anyio.fail_after(60):
                    while server.count == before:  # noqa: ASYNC110 - it is in another process
                        await anyio.sleep(0.01)
                await anyio.sleep(dice.uniform(0, 0.25))
                await gateway.kill()
                tasks.cancel_scope.cancel()
            await gateway.start()
        await quiet(gateway)
        assert await gateway.stop() == 0
        assert server.count >= KILLS
        assert "lost" in {outcome for outcome, _ in ledger(gateway.home)}
        check(gateway.home, server, KILLS)
