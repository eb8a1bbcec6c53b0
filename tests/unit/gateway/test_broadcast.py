"""From run events to events on the wire."""

import json
from typing import Any

import anyio
import pytest

from skerry.gateway import frames
from skerry.gateway.broadcast import MAX_TOPICS, THROTTLE_SECONDS, Broadcast
from skerry.infra.clock import SystemClock
from skerry.model.event import (
    RunEnded,
    RunEvent,
    RunEventBody,
    RunStarted,
    TextDelta,
    TextEnded,
    TextWithdrawn,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from skerry.model.ids import MAIN_AGENT, RunId, SessionKey
from skerry.model.run import RunRequest, StopReason
from skerry.policy.access import READ, Role
from tests.support.gateway import FAILED, SESSION, result

RUN = RunId("r1")
REQUEST = RunRequest(RUN, SessionKey.main(), "hi")


class Ear:
    """Receives all events."""

    def __init__(self, id: str = "ear") -> None:  # noqa: A002 - the wire's name
        self.id = id
        self.heads: list[bytes] = []
        self.droppable: list[bool] = []
        self.arrived = anyio.Event()

    def event(self, head: bytes, *, droppable: bool) -> None:
        self.heads.append(head)
        self.droppable.append(droppable)
        self.arrived.set()

    def take(self) -> list[dict[str, Any]]:
        taken = [json.loads(frames.unnumbered(head)) for head in self.heads]
        self.heads.clear()
        self.arrived = anyio.Event()
        return taken

    def told(self) -> list[tuple[str, Any]]:
        """Returns pairs of event and payload in short form."""
        return [(frame["event"], short(frame["payload"])) for frame in self.take()]


def short(payload: dict[str, Any]) -> Any:
    if "state" in payload:
        return payload["state"], payload.get("deltaText") or payload.get("phase")
    data = payload["data"]
    return payload["stream"], data.get("phase") or data.get("delta") or data["outputTokens"]


@pytest.fixture
def broadcast() -> Broadcast:
    return Broadcast(SystemClock())


@pytest.fixture
def ear(broadcast: Broadcast) -> Ear:
    ear = Ear()
    broadcast.add(ear, 4, Role.OPERATOR, (READ,), tools=True)
    return ear


def tell(broadcast: Broadcast, *bodies: RunEventBody) -> None:
    for body in bodies:
        broadcast.publish(RunEvent(RUN, "agent:main:main", SESSION, MAIN_AGENT, body))


def ended(**changes: Any) -> RunEnded:
    return RunEnded(result(REQUEST, **changes))


@pytest.mark.requirement("agent-chat-delta-final")
@pytest.mark.requirement("agent-stream-assistant")
@pytest.mark.requirement("agent-stream-lifecycle")
async def test_a_run_is_told_in_both_families(broadcast: Broadcast, ear: Ear) -> None:
    tell(broadcast, RunStarted(5), TextDelta("pong"), TextDelta(" from"), TextDelta(" stub"))
    tell(broadcast, ended(payloads=("pong from stub",)))
    assert ear.told() == [
        ("agent", ("lifecycle", "start")),
        ("agent", ("run_status", "starting_model")),
        ("chat", ("status", "starting_model")),
        ("agent", ("assistant", "pong")),
        ("chat", ("delta", "pong")),
        ("agent", ("assistant", " from stub")),
        ("chat", ("delta", " from stub")),
        ("agent", ("usage", 5)),
        ("agent", ("lifecycle", "end")),
        ("chat", ("final", None)),
    ]


@pytest.mark.requirement("gateway-events-core")
@pytest.mark.requirement("wire-event-frame")
async def test_an_event_says_whose_it_is(broadcast: Broadcast, ear: Ear) -> None:
    tell(broadcast, RunStarted(5), TextDelta("a"))
    start, _, _, delta, chat = ear.take()
    assert [row["event"] for row in (start, delta, chat)] == ["agent", "agent", "chat"]
    assert start["payload"] | {"ts": 0} == {
        "runId": RUN,
        "sessionKey": "agent:main:main",
        "sessionId": SESSION,
        "agentId": "main",
        "stream": "lifecycle",
        "data": {"phase": "start", "startedAt": 5},
        "seq": 1,
        "ts": 0,
    }
    assert delta["payload"]["data"] == {"text": "a", "delta": "a"}
    assert delta["payload"]["seq"] == chat["payload"]["seq"] == 3
    message = chat["payload"]["message"]
    assert (message["role"], message["content"]) == ("assistant", [{"type": "text", "text": "a"}])


@pytest.mark.requirement("gateway-delta-throttle")
async def test_the_first_delta_goes_at_once_and_the_rest_together_after_150_ms(
    broadcast: Broadcast, ear: Ear
) -> None:
    assert THROTTLE_SECONDS == 0.15
    begin = anyio.current_time()
    tell(broadcast, TextDelta("a"))
    assert [what for _, what in ear.told()] == [("assistant", "a"), ("delta", "a")]
    tell(broadcast, TextDelta("b"), TextDelta("c"))
    assert ear.heads == []
    with anyio.fail_after(60):
        await ear.arrived.wait()
    assert anyio.current_time() - begin >= 0.14
    agent, chat = ear.take()
    assert agent["payload"]["data"] == {"text": "abc", "delta": "bc"}
    assert chat["payload"]["message"]["content"][0]["text"] == "abc"


async def test_only_deltas_and_ticks_may_be_dropped(broadcast: Broadcast, ear: Ear) -> None:
    tell(broadcast, RunStarted(1), TextDelta("a"), ended())
    broadcast.tick()
    broadcast.shutdown("stop", 30_000)
    assert ear.droppable == [False, False, False, True, True, False, False, False, True, False]


@pytest.mark.requirement("agent-final-payload-list")
async def test_the_end_carries_the_payload_list(broadcast: Broadcast, ear: Ear) -> None:
    tell(broadcast, ended(payloads=("a", "b")))
    _usage, end, final = ear.take()
    assert end["payload"]["data"] == {
        "phase": "end",
        "startedAt": 1_000,
        "endedAt": 1_250,
        "aborted": False,
        "stopReason": "stop",
        "executionSettled": True,
        "payloads": [{"text": "a", "mediaUrl": None}, {"text": "b", "mediaUrl": None}],
        "terminalReply": {"disposition": "visible", "text": "a\n\nb"},
    }
    assert final["payload"]["message"]["content"] == [{"type": "text", "text": "a\n\nb"}]


async def test_an_abort_is_an_end_with_what_was_said(broadcast: Broadcast, ear: Ear) -> None:
    tell(
        broadcast,
        TextDelta("half"),
        ended(stop_reason=StopReason.ABORTED, payloads=("half",), aborted_by="rpc"),
    )
    *_, end, chat = ear.take()
    data = end["payload"]["data"]
    assert (data["phase"], data["status"], data["aborted"]) == ("end", "cancelled", True)
    assert (chat["payload"]["state"], chat["payload"]["stopReason"]) == ("aborted", "rpc")
    assert chat["payload"]["message"]["content"][0]["text"] == "half"


@pytest.mark.parametrize(
    ("reason", "failure", "kind"),
    [
        (StopReason.ERROR, FAILED, "rate_limit"),
        (StopReason.TIMEOUT, None, "timeout"),
        (StopReason.INTERRUPTED, None, "unknown"),
    ],
)
async def test_a_failure_is_an_error_in_both_families(
    broadcast: Broadcast, ear: Ear, reason: StopReason, failure: Any, kind: str
) -> None:
    tell(broadcast, ended(stop_reason=reason, payloads=(), error=failure))
    *_, end, chat = ear.take()
    message = failure.message if failure else "The run failed."
    assert (end["payload"]["data"]["phase"], end["payload"]["data"]["error"]) == ("error", message)
    assert chat["payload"]["state"] == "error"
    assert (chat["payload"]["errorMessage"], chat["payload"]["errorKind"]) == (message, kind)
    assert "message" not in chat["payload"]


@pytest.mark.requirement("agent-stream-tool")
async def test_tools_are_told_to_those_who_asked_for_it(broadcast: Broadcast, ear: Ear) -> None:
    plain = Ear("plain")
    broadcast.add(plain, 4, Role.OPERATOR, (READ,), tools=False)
    tell(
        broadcast,
        TextDelta("I look."),
        ToolStarted("c1", "read", {"path": "a"}),
        ToolFinished("c1", "read", is_error=False, text="content"),
        TextDelta("It says."),
        ended(payloads=("I look.", "It says.")),
    )
    payloads = [frame["payload"] for frame in ear.take()]
    tools = [payload["data"] for payload in payloads if payload.get("stream") == "tool"]
    assert tools == [
        {"phase": "start", "name": "read", "toolCallId": "c1", "args": {"path": "a"}},
        {
            "phase": "result",
            "name": "read",
            "toolCallId": "c1",
            "meta": "a",
            "isError": False,
            "result": {"content": [{"type": "text", "text": "content"}]},
        },
    ]
    assert [what for _, what in plain.told()] == [
        ("assistant", "I look."),
        ("delta", "I look."),
        ("assistant", "\n\nIt says."),
        ("delta", "\n\nIt says."),
        ("usage", 5),
        ("lifecycle", "end"),
        ("final", None),
    ]


async def test_without_the_read_scope_only_ticks_and_shutdowns_arrive(broadcast: Broadcast) -> None:
    deaf = Ear()
    broadcast.add(deaf, 4, Role.OPERATOR, (), tools=True)
    tell(broadcast, TextDelta("a"), ToolStarted("c", "read", {}), ended())
    broadcast.send("health", {})
    broadcast.tick()
    broadcast.shutdown("stop", 30_000)
    tick, shutdown = deaf.take()
    assert tick["event"] == "tick"
    assert shutdown["payload"] == {"reason": "stop", "restartExpectedMs": 30_000}


async def test_a_disconnected_client_receives_nothing(broadcast: Broadcast, ear: Ear) -> None:
    broadcast.remove(ear)
    tell(broadcast, TextDelta("a"), ended())
    broadcast.tick()
    assert ear.heads == []


async def test_the_text_so_far_includes_what_was_not_sent_yet(broadcast: Broadcast) -> None:
    tell(broadcast, TextDelta("a"), TextDelta("b"))
    assert broadcast.text(RUN) == "ab"
    tell(broadcast, ended())
    assert broadcast.text(RUN) == ""


@pytest.mark.requirement("gateway-final-guaranteed")
async def test_one_encoding_serves_every_client(broadcast: Broadcast, ear: Ear) -> None:
    broadcast.add(other := Ear("other"), 4, Role.OPERATOR, (READ,), tools=False)
    tell(broadcast, TextDelta("a"))
    assert all(mine is theirs for mine, theirs in zip(ear.heads, other.heads, strict=True))


async def test_thinking_is_a_stream_of_its_own(broadcast: Broadcast, ear: Ear) -> None:
    tell(broadcast, ThinkingDelta("hm"), ThinkingDelta(", so"), TextDelta("a"), TextEnded())
    first, rest = ear.take()
    assert first["payload"]["stream"] == rest["payload"]["stream"] == "thinking"
    assert first["payload"]["data"] == {"text": "hm", "delta": "hm"}
    assert rest["payload"]["data"] == {"text": "hm, so", "delta": ", so"}
    tell(broadcast, ThinkingDelta("next"), ended(payloads=("a",)))
    payloads = [frame["payload"] for frame in ear.take()]
    datas = [payload["data"] for payload in payloads if payload.get("stream") == "thinking"]
    assert datas == [{"text": "next", "delta": "next"}]
    assert [row["data"]["text"] for row in payloads if row.get("stream") == "assistant"] == ["a"]


def keys(frame: dict[str, Any]) -> set[str]:
    return set(frame["payload"]) | {f"data.{key}" for key in frame["payload"].get("data", {})}


async def test_version_3_gets_what_version_3_knows(broadcast: Broadcast) -> None:
    old = Ear("old")
    broadcast.add(old, 3, Role.OPERATOR, (READ,), tools=True)
    tell(
        broadcast,
        RunStarted(5),
        ToolStarted("c1", "read", {"lines": 3, "path": "a.md"}),
        ToolFinished("c1", "read", is_error=False, text="content"),
        TextDelta("pong"),
        ended(),
    )
    start, begin, result, assistant, delta, end, final = old.take()
    agent = {"runId", "stream", "data", "sessionKey", "seq", "ts"}
    assert keys(start) == agent | {"data.phase", "data.startedAt"}
    assert begin["payload"]["data"] == {
        "phase": "start",
        "name": "read",
        "toolCallId": "c1",
        "args": {"lines": 3, "path": "a.md"},
    }
    assert result["payload"]["data"] == {
        "phase": "result",
        "name": "read",
        "toolCallId": "c1",
        "meta": "a.md",
        "isError": False,
    }
    assert assistant["payload"]["data"] == {"text": "pong", "delta": "pong"}
    chat = {"runId", "sessionKey", "seq", "state", "message"}
    assert keys(delta) == keys(final) == chat
    assert end["payload"]["data"] == {"phase": "end", "endedAt": 1_250}
    agents = (start, begin, result, assistant, end)
    assert [frame["payload"]["seq"] for frame in agents] == [1, 2, 3, 4, 5]
    assert final["payload"]["message"]["content"] == [{"type": "text", "text": "pong"}]


async def test_version_3_receives_an_abort_and_a_failure(broadcast: Broadcast) -> None:
    old = Ear("old")
    broadcast.add(old, 3, Role.OPERATOR, (READ,), tools=False)
    tell(broadcast, ended(stop_reason=StopReason.ABORTED, payloads=("so",), aborted_by="rpc"))
    end, chat = old.take()
    assert end["payload"]["data"] == {"phase": "end", "endedAt": 1_250, "aborted": True}
    assert (chat["payload"]["state"], chat["payload"]["stopReason"]) == ("aborted", "rpc")
    tell(broadcast, ended(stop_reason=StopReason.ERROR, payloads=(), error=FAILED))
    end, chat = old.take()
    assert end["payload"]["data"] == {
        "phase": "error",
        "error": FAILED.message,
        "endedAt": 1_250,
    }
    assert chat["payload"]["state"] == "error"
    assert chat["payload"]["errorMessage"] == FAILED.message


async def test_a_version_that_nobody_speaks_is_not_encoded(
    broadcast: Broadcast, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    event = frames.event

    def count(name: str, payload: Any) -> bytes:
        encoded.append(name)
        return event(name, payload)

    monkeypatch.setattr(frames, "event", count)
    tell(broadcast, TextDelta("a"), ended())
    assert len(encoded) == len(ear.heads) == 5


async def test_a_topic_is_told_to_its_subscribers_until_they_leave(
    broadcast: Broadcast, ear: Ear
) -> None:
    other = Ear("other")
    broadcast.add(other, 4, Role.OPERATOR, (READ,), tools=False)
    assert broadcast.subscribe("ear", "a topic")
    broadcast.send("health", {"n": 1}, topic="a topic")
    assert [len(one.take()) for one in (ear, other)] == [1, 0]
    broadcast.unsubscribe("ear", "a topic")
    broadcast.send("health", {"n": 2}, topic="a topic")
    assert broadcast.subscribe("other", "a topic")
    broadcast.remove(other)
    broadcast.send("health", {"n": 3}, topic="a topic")
    assert [len(one.take()) for one in (ear, other)] == [0, 0]


async def test_a_client_has_a_bounded_number_of_topics(broadcast: Broadcast, ear: Ear) -> None:
    assert all(broadcast.subscribe(ear.id, str(number)) for number in range(MAX_TOPICS))
    assert broadcast.subscribe(ear.id, "0")
    assert not broadcast.subscribe(ear.id, "one more")


async def test_text_that_was_withdrawn_is_replaced_by_what_other_responses_said(
    broadcast: Broadcast, ear: Ear
) -> None:
    tell(broadcast, TextDelta("First."), TextEnded(), TextDelta("Hel"))
    broadcast._flush(broadcast._streams[RUN])
    ear.take()
    tell(broadcast, TextWithdrawn())
    agent, chat = (frame["payload"] for frame in ear.take())
    assert agent["data"] == {"text": "First.", "delta": "", "replace": True}
    assert (chat["deltaText"], chat["replace"]) == ("First.", True)
    assert chat["message"]["content"] == [{"type": "text", "text": "First."}]
    tell(broadcast, TextDelta("Good day"))
    assert broadcast.text(RUN) == "First.\n\nGood day"


async def test_text_that_nobody_saw_is_withdrawn_in_silence(broadcast: Broadcast, ear: Ear) -> None:
    tell(broadcast, TextDelta("First."), TextEnded())
    ear.take()
    tell(broadcast, TextDelta("Hel"), TextWithdrawn())
    assert ear.take() == []
    assert broadcast.text(RUN) == "First."
