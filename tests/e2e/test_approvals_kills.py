"""`kill -9` at each step of an approval: pending stays, allowed begins, begun is never repeated."""

import json
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.model.errors import GatewayUnreachableError
from skerry.runtime import call_approvals, late_calls
from skerry.store import Unit, approvals
from skerry.testing.gateway import running_gateway
from tests.support import asking_tool
from tests.support.chaos import until
from tests.support.moments import Life, Moments, echoing, life
from tests.support.wire import Wire, connected

ALLOW = "allow-once"
CALL = 'call asking {"text": "a"}'
IN_RUN = ("approval.asked:1", "approval.resolved:1", "approval.begun:1", "approval.ran:1")
LATE = ("approval.left:1", "approval.resolved:1", "approval.begun:1", "approval.ran:1")
BEGUN = ("approval.begun:1", "approval.ran:1")


def config(folder: Path) -> dict[str, Any]:
    """Returns a configuration with the plugin of the tool, which is copied beside the lives."""
    plugin = shutil.copy(asking_tool.__file__, folder / "asker.py")
    return {"plugins": {"load": {"paths": [str(plugin)]}}}


async def ask(address: GatewayAddress, method: str, **params: Any) -> Any:
    async with GatewayClient(address) as client:
        return await client.request(method, params)


async def history(address: GatewayAddress) -> str:
    return json.dumps(await ask(address, "chat.history", sessionKey="main"))


def ran(folder: Path) -> list[str]:
    (workspace,) = folder.glob("home/workspace*")
    file = workspace / "ran.txt"
    return file.read_text().split() if file.exists() else []


async def answered(wire: Wire, address: GatewayAddress) -> None:
    """Asks for the call and allows it."""
    params = {"sessionKey": "main", "message": CALL, "idempotencyKey": "r1"}
    await wire.send({"type": "req", "id": "r1", "method": "chat.send", "params": params})
    payload = (await wire.event("exec.approval.requested"))["payload"]
    if call_approvals.WAIT_SECONDS < 1:
        await wire.event("chat", state="final", runId="r1")
    await ask(address, "exec.approval.resolve", id=payload["id"], decision="allow-once")


def lived(folder: Path, expected: tuple[str, ...]) -> Moments:
    """Returns a life in which a call is asked about, allowed and made, at each of its steps."""
    moments = Moments(folder / "now", folder / "moments", frozenset(expected))

    async def run() -> None:
        settings = config(folder)
        async with (
            life(moments.folder, moments.reach, echoing(), settings) as first,
            connected(first.address.url, auth={"token": first.address.token}) as wire,
        ):
            moments.turn = first.gateway.context.store._writer.turn
            await answered(wire, first.address)
            await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)
            await until(lambda: ran(moments.folder) == ["a"], lambda: ran(moments.folder))

    anyio.run(run)
    return moments


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Moments]:
    """A life in which the person answers while the run waits, and one with a late answer."""
    in_run = lived(tmp_path_factory.mktemp("in-run"), (*IN_RUN, "approval.ended:1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
        late = lived(tmp_path_factory.mktemp("late"), (*LATE, "approval.told:1"))
    return {"in_run": in_run, "late": late}


async def pending(second: Life) -> list[Any]:
    listed: list[Any] = await ask(second.address, "exec.approval.list")
    return listed


async def settled(second: Life, is_so: Callable[[str], bool]) -> str:
    """Returns the history of the conversation once it is as wanted, and no run is active."""
    text = ""
    with anyio.fail_after(60):
        while not is_so(text) or second.gateway.dispatch.active():
            await anyio.lowlevel.checkpoint()
            text = await history(second.address)
    return text


@pytest.mark.parametrize(
    ("which", "moment"), [("in_run", "approval.asked:1"), ("late", "approval.left:1")]
)
async def test_what_was_pending_is_pending_and_runs_once_when_the_word_comes(
    tmp_path: Path, lives: dict[str, Moments], which: str, moment: str
) -> None:
    folder = shutil.copytree(lives[which][moment], tmp_path / "copy")
    async with life(folder, models=echoing()) as second:
        (row,) = await pending(second)
        assert row["request"]["command"] == "ask a"
        await ask(second.address, "exec.approval.resolve", id=row["id"], decision="allow-once")
        await settled(second, lambda text: "ran a" in text)
        assert await pending(second) == []
    assert ran(folder) == ["a"]


@pytest.mark.parametrize("which", ["in_run", "late"])
async def test_what_was_allowed_and_had_not_begun_begins(
    tmp_path: Path, lives: dict[str, Moments], which: str
) -> None:
    folder = shutil.copytree(lives[which]["approval.resolved:1"], tmp_path / "copy")
    assert ran(folder) == []
    async with life(folder, models=echoing()) as second:
        text = await settled(second, lambda text: "ran a" in text)
        assert "unknown" not in text
    assert ran(folder) == ["a"]


async def test_an_allowed_call_that_the_store_refuses_to_begin_begins_later(
    tmp_path: Path, lives: dict[str, Moments], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(lives["late"]["approval.resolved:1"], tmp_path / "copy")
    begin, refusals = approvals.begin, [sqlite3.OperationalError("database or disk is full")]

    def refused(unit: Unit, approval_id: str, now: int) -> bool:
        if refusals:
            raise refusals.pop()
        return begin(unit, approval_id, now)

    monkeypatch.setattr(approvals, "begin", refused)
    monkeypatch.setattr(late_calls, "RETRY_SECONDS", 0.0)
    async with life(folder, models=echoing()) as second:
        await settled(second, lambda text: "ran a" in text)
    assert (ran(folder), refusals) == (["a"], [])


@pytest.mark.parametrize("which", ["in_run", "late"])
@pytest.mark.parametrize("moment", BEGUN)
async def test_a_call_that_had_begun_is_told_as_unknown_and_never_repeated(
    tmp_path: Path, lives: dict[str, Moments], which: str, moment: str
) -> None:
    folder = shutil.copytree(lives[which][moment], tmp_path / "copy")
    before = ran(folder)
    assert before == (["a"] if moment == "approval.ran:1" else [])
    async with life(folder, models=echoing()) as second:
        await settled(second, lambda text: "outcome is unknown" in text)
        assert await pending(second) == []
    assert ran(folder) == before
    async with life(folder, models=echoing()) as third:
        payload = await ask(third.address, "chat.history", sessionKey="main")
        users = [
            json.dumps(message) for message in payload["messages"] if message["role"] == "user"
        ]
        assert [("outcome is unknown; it is not repeated" in user) for user in users] == [
            False,
            True,
        ]
    assert ran(folder) == before


@pytest.mark.parametrize(
    ("which", "moment"), [("in_run", "approval.ended:1"), ("late", "approval.told:1")]
)
async def test_a_call_that_has_ended_is_neither_repeated_nor_unknown(
    tmp_path: Path, lives: dict[str, Moments], which: str, moment: str
) -> None:
    folder = shutil.copytree(lives[which][moment], tmp_path / "copy")
    async with life(folder, models=echoing()) as second:
        text = await settled(second, bool)
        assert "outcome is unknown" not in text
        if which == "late":
            assert "was approved and has ended" in text
    assert ran(folder) == ["a"]


@pytest.mark.parametrize("fault", ["approval.asked:1", "approval.resolved:1", "approval.begun:1"])
async def test_a_real_kill_leaves_the_same(tmp_path: Path, fault: str) -> None:
    home = tmp_path / "home"
    async with running_gateway(
        home=home, config=config(tmp_path), first=("--fault", fault)
    ) as gateway:
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            params = {"sessionKey": "main", "message": CALL, "idempotencyKey": "r1"}
            await wire.send({"type": "req", "id": "r1", "method": "chat.send", "params": params})
            if fault != "approval.asked:1":
                payload = (await wire.event("exec.approval.requested"))["payload"]
                with suppress(GatewayUnreachableError):
                    answer = {"id": payload["id"], "decision": "allow-once"}
                    await ask(gateway.address, "exec.approval.resolve", **answer)
            with anyio.fail_after(60):
                assert await gateway.wait() == -signal.SIGKILL
        await gateway.start()
        if fault == "approval.asked:1":
            (row,) = await ask(gateway.address, "exec.approval.list")
            await ask(gateway.address, "exec.approval.resolve", id=row["id"], decision="allow-once")
        expected = "outcome is unknown" if fault == "approval.begun:1" else "ran a"
        with anyio.fail_after(60):
            while expected not in await history(gateway.address):
                await anyio.lowlevel.checkpoint()
        assert ran(tmp_path) == ([] if fault == "approval.begun:1" else ["a"])


EXEC = "call exec " + json.dumps({"command": "echo x >> ran.txt; sleep 600", "timeout": 900})


async def test_a_command_that_a_kill_ends_is_told_as_unknown_and_not_run_again(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    asks = {"tools": {"exec": {"ask": "always"}}}
    async with running_gateway(home=home, config=asks) as gateway:
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            params = {"sessionKey": "main", "message": EXEC, "idempotencyKey": "r1"}
            await wire.send({"type": "req", "id": "r1", "method": "chat.send", "params": params})
            payload = (await wire.event("exec.approval.requested"))["payload"]
            await ask(gateway.address, "exec.approval.resolve", id=payload["id"], decision=ALLOW)
            await until(lambda: ran(tmp_path) == ["x"], lambda: ran(tmp_path))
            await gateway.kill()
        await gateway.start()
        with anyio.fail_after(60):
            while "outcome is unknown" not in await history(gateway.address):
                await anyio.lowlevel.checkpoint()
        assert await ask(gateway.address, "exec.approval.list") == []
        assert ran(tmp_path) == ["x"]
