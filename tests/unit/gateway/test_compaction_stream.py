"""What clients of either version hear of a compaction."""

import json

import pytest

from skerry.gateway import frames
from skerry.gateway.broadcast import Broadcast
from skerry.infra.clock import SystemClock
from skerry.model.event import CompactionEnded, CompactionStarted, RunEvent, RunEventBody
from skerry.model.ids import MAIN_AGENT, RunId, SessionId
from skerry.policy.access import READ, Role


class Ear:
    """Receives all events."""

    id = "ear"

    def __init__(self) -> None:
        self.heads: list[bytes] = []

    def event(self, head: bytes, *, droppable: bool) -> None:
        assert not droppable
        self.heads.append(head)


@pytest.mark.requirement("agent-stream-compaction")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_a_compaction_is_a_stream_of_its_own(protocol: int) -> None:
    broadcast, ear = Broadcast(SystemClock()), Ear()
    broadcast.add(ear, protocol, Role.OPERATOR, (READ,), tools=False)
    bodies: list[RunEventBody] = [CompactionStarted(), CompactionEnded(done=True, will_retry=True)]
    for body in bodies:
        event = RunEvent(RunId("r"), "agent:main:main", SessionId("s"), MAIN_AGENT, body)
        broadcast.publish(event)
    rows = [json.loads(frames.unnumbered(head)) for head in ear.heads]
    assert [row["payload"]["stream"] for row in rows] == ["compaction", "compaction"]
    assert [row["payload"]["data"] for row in rows] == [
        {"phase": "start"},
        {"phase": "end", "completed": True, "willRetry": True},
    ]
