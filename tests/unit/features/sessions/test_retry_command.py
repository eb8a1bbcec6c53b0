"""`/retry` after an interruption: the run that it starts."""

from pathlib import Path

import anyio
from msgspec.structs import replace

from skerry.commands.table import CommandTable
from skerry.features.sessions.retry_command import retry_command
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import UserMessage
from skerry.model.origin import Origin
from skerry.model.run import StopReason
from skerry.runtime.recovery import recover
from skerry.sessions.failed_message import NOTHING_TO_RETRY
from skerry.store import outbox
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.acting import ACT, Act
from tests.support.core import Core, open_core, request


async def answer_to(core: Core, text: str, run_id: str) -> str:
    result = await core.ask(text, run_id)
    return "".join(result.payloads)


def add_retry(core: Core, table: CommandTable) -> None:
    table.add(retry_command(table, core.store, lambda: core.dispatch))


async def interrupted(home: Path, text: str) -> None:
    """Leaves a run behind that was ended in the middle."""
    gate = ReplyGate()
    async with open_core(home, ScriptedModel([[ACT]]), tools=(Act(gate),)) as core:
        await core.dispatch.submit(request(text))
        with anyio.fail_after(60):
            await gate.reached.wait()


async def test_an_interrupted_message_runs_again_when_the_person_says_so(tmp_path: Path) -> None:
    await interrupted(tmp_path, "hello")
    table = CommandTable()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        add_retry(core, table)
        assert "again" in await answer_to(core, "/retry", "c1")
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("hello:retry"), None)
        assert result is not None
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ("echo: hello",))
        assert await answer_to(core, "/retry", "c2") == NOTHING_TO_RETRY


async def test_large_messages_and_new_sessions(tmp_path: Path) -> None:
    large = "x" * 70_000
    await interrupted(tmp_path, large)
    table = CommandTable()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
        add_retry(core, table)
        await answer_to(core, "/retry", "c1")
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId(f"{large}:retry"), None)
        assert result is not None
        assert result.payloads == (f"echo: {large}",)
        assert (await core.ask("/retry", "c2", SessionKey.parse("other"))).payloads == (
            NOTHING_TO_RETRY,
        )


async def test_a_message_of_the_owners_runs_again_for_the_owner_alone_and_where_they_are(
    tmp_path: Path,
) -> None:
    large = "x" * 70_000
    await interrupted(tmp_path, large)
    table = CommandTable()
    reply_to = ReplyTo(
        ChannelId("memory"), AccountId("default"), Peer(PeerKind.GROUP, "family"), "m"
    )
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model, commands=table) as core:
        await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
        add_retry(core, table)
        for name, origin in (("s", Origin.STRANGER), ("o", Origin.OWNER)):
            asking = replace(request("/retry", name), reply_to=reply_to, origin=origin)
            await core.dispatch.submit(asking)
            with anyio.fail_after(60):
                result = await core.dispatch.wait(RunId(name), None)
            assert result is not None
            assert (result.payloads == (NOTHING_TO_RETRY,)) is (origin is Origin.STRANGER)
        with anyio.fail_after(60):
            await core.dispatch.wait(RunId(f"{large}:retry"), None)
        sent = [row.waiting.part.text for row in await core.store.read(outbox.undelivered)]
        messages = [
            message for message in await core.transcript() if isinstance(message, UserMessage)
        ]
    assert f"echo: {large}" in sent
    assert [message.origin for message in messages if message.text == large] == [
        Origin.OWNER,
        Origin.OWNER,
    ]
