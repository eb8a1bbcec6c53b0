"""Mode `interrupt` in a group: nobody stops what somebody asked who may do more."""

from pathlib import Path

import anyio
from msgspec.structs import replace

from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.run import RunResult
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import Core, open_core, request

GROUP = SessionKey.parse("agent:main:memory:group:family")
PLACE = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.GROUP, "family"), "m")


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def test_a_stranger_in_a_group_interrupts_strangers_and_waits_for_the_owner(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([[gate := ReplyGate(), "whole"], ["now"]])
    messages = [
        replace(
            request(name, key=GROUP, queue_mode=QueueMode.INTERRUPT), origin=origin, reply_to=PLACE
        )
        for name, origin in (
            ("a", Origin.OWNER),
            ("b", Origin.STRANGER),
            ("c", Origin.STRANGER),
        )
    ]
    async with open_core(tmp_path, model) as core:
        await core.dispatch.submit(messages[0])
        with anyio.fail_after(60):
            await gate.reached.wait()
        for message in messages[1:]:
            await core.dispatch.submit(message)
        gate.open()
        assert (await ended(core, "a")).payloads == ("whole",)
        assert (await ended(core, "b")).aborted_by == "interrupt"
        assert (await ended(core, "c")).payloads == ("now",)
