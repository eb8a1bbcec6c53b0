"""The output of a tool call in progress, as clients of both versions get it."""

import anyio
import pytest

from skerry.gateway.broadcast import Broadcast
from skerry.infra.clock import SystemClock
from skerry.model.event import TextDelta, ToolFinished, ToolStarted, ToolUpdated
from skerry.policy.access import READ, Role
from tests.unit.gateway.test_broadcast import Ear, ended, tell


@pytest.fixture
def broadcast() -> Broadcast:
    return Broadcast(SystemClock())


@pytest.fixture
def ear(broadcast: Broadcast) -> Ear:
    ear = Ear()
    broadcast.add(ear, 4, Role.OPERATOR, (READ,), tools=True)
    return ear


def update(text: str) -> ToolUpdated:
    return ToolUpdated("c1", "exec", text, {"status": "running"})


async def test_the_newest_output_of_a_call_is_sent_and_may_be_dropped(
    broadcast: Broadcast, ear: Ear
) -> None:
    tell(broadcast, ToolStarted("c1", "exec", {}))
    ear.take()
    ear.droppable.clear()
    tell(broadcast, update("a"), update("ab"), update("abc"))
    assert ear.heads == [], "an update waits as a delta does"
    with anyio.fail_after(60):
        await ear.arrived.wait()
    assert [frame["payload"]["data"] for frame in ear.take()] == [
        {
            "phase": "update",
            "name": "exec",
            "toolCallId": "c1",
            "partialResult": {
                "content": [{"type": "text", "text": "abc"}],
                "details": {"status": "running"},
            },
        }
    ]
    assert ear.droppable == [True]


async def test_no_output_of_a_call_follows_its_result(broadcast: Broadcast, ear: Ear) -> None:
    tell(
        broadcast,
        ToolStarted("c1", "exec", {}),
        update("a"),
        ToolFinished("c1", "exec", is_error=False, text="ab", details={"exitCode": 0}),
        TextDelta("done"),
        ended(),
    )
    tools = [row["payload"]["data"] for row in ear.take() if row["payload"].get("stream") == "tool"]
    assert [tool["phase"] for tool in tools] == ["start", "result"]
    assert tools[-1]["result"]["details"] == {"exitCode": 0}


async def test_only_clients_that_asked_for_tools_get_the_output(
    broadcast: Broadcast, ear: Ear
) -> None:
    broadcast.add(plain := Ear("plain"), 4, Role.OPERATOR, (READ,), tools=False)
    broadcast.add(old := Ear("old"), 3, Role.OPERATOR, (READ,), tools=True)
    tell(broadcast, update("a"))
    assert (len(ear.heads), plain.heads) == (1, [])
    (sign,) = old.take()
    expected = {"phase": "update", "name": "exec", "toolCallId": "c1"}
    assert sign["payload"]["data"] == expected, "version 3 has no partial results"
