"""From run events to what clients see: `agent` and `chat` events, throttled, encoded once.

Both families carry the text so far, so every delta repeats all before it. One pair per 150 ms keeps
a long answer from costing the square of its length, and a lost delta is healed by the next.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final, Protocol

from skerry.gateway import access, frames, replies
from skerry.gateway.access import ANYBODY, READERS, Need, Role
from skerry.gateway.frames import Json, StateVersion
from skerry.infra.clock import Clock
from skerry.model.event import (
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    TextEnded,
    ToolFinished,
    ToolStarted,
)
from skerry.model.ids import RunId
from skerry.model.run import RunResult, StopReason

THROTTLE_SECONDS: Final = 0.15
_TOOL_TEXT: Final = 8000
"""Characters of a tool's result that an event shows."""


class Subscriber(Protocol):
    """One client's end of the events."""

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Take the frame of an event, which still lacks its number."""
        ...


@dataclass(slots=True)
class _Stream:
    """What has been told of one run. `seq` counts the run's `agent` events."""

    event: RunEvent
    started_at: int = 0
    seq: int = 0
    text: str = ""
    pending: list[str] = field(default_factory=list)
    parted: bool = False
    flushed_at: float = float("-inf")
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Broadcast:
    """Tells every client what happens. Nothing here waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._who: dict[Need, set[Subscriber]] = {need: set() for need in access.EVENTS.values()}
        self._all = self._who[ANYBODY]
        self._readers = self._who[READERS]
        self._tool_readers: set[Subscriber] = set()
        self._streams: dict[RunId, _Stream] = {}

    def add(
        self, subscriber: Subscriber, role: Role, scopes: tuple[str, ...], *, tools: bool
    ) -> None:
        """Tell a client from now on what its role and scopes allow; `tools`: also what tools do."""
        for need, clients in self._who.items():
            if need.met(role, scopes):
                clients.add(subscriber)
        if tools and subscriber in self._readers:
            self._tool_readers.add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Tell a client nothing more."""
        for group in (*self._who.values(), self._tool_readers):
            group.discard(subscriber)

    def text(self, run_id: RunId) -> str:
        """Return what a running answer says so far, sent or not; empty for an unknown run."""
        stream = self._streams.get(run_id)
        return stream.text + "".join(stream.pending) if stream else ""

    def tell(self, name: str, payload: Json, version: StateVersion | None = None) -> None:
        """Send an event to those who may get it by `access.EVENTS`."""
        self._send(
            self._who[access.EVENTS[name]], frames.event(name, payload, version), droppable=False
        )

    def tick(self) -> None:
        """Tell everybody that the gateway lives."""
        head = frames.event("tick", {"ts": self._clock.now_ms()})
        self._send(self._all, head, droppable=True)

    def shutdown(self, reason: str) -> None:
        """Tell everybody that the gateway stops."""
        self._send(self._all, frames.event("shutdown", {"reason": reason}), droppable=False)

    def publish(self, event: RunEvent) -> None:
        """Tell what a run did. Called in the event loop, in the order in which it happened."""
        stream = self._streams.get(event.run_id)
        if stream is None:
            stream = self._streams[event.run_id] = _Stream(event)
        match event.body:
            case TextDelta(delta):
                self._add_text(stream, delta)
            case TextEnded():
                stream.parted = True
            case RunStarted(at):
                stream.started_at = at
                self._agent(stream, "lifecycle", {"phase": "start", "startedAt": at})
            case ToolStarted(call_id, name, arguments):
                self._tool(
                    stream,
                    {"phase": "start", "name": name, "toolCallId": call_id, "args": arguments},
                )
            case ToolFinished(call_id, name, is_error, text):
                shown = [{"type": "text", "text": text[:_TOOL_TEXT]}]
                data = {"phase": "result", "name": name, "toolCallId": call_id}
                self._tool(stream, {**data, "isError": is_error, "result": {"content": shown}})
            case RunEnded(result):
                self._flush(stream)
                del self._streams[event.run_id]
                self._end(stream, result)

    def _add_text(self, stream: _Stream, delta: str) -> None:
        if stream.parted and stream.text:
            delta = "\n\n" + delta
        stream.parted = False
        stream.pending.append(delta)
        if stream.timer is not None:
            return
        loop = asyncio.get_running_loop()
        left = stream.flushed_at + THROTTLE_SECONDS - loop.time()
        if left <= 0:
            self._flush(stream)
        else:
            stream.timer = loop.call_later(left, self._flush, stream)

    def _flush(self, stream: _Stream) -> None:
        stream.stop_timer()
        if not stream.pending:
            return
        delta = "".join(stream.pending)
        stream.pending.clear()
        stream.text += delta
        stream.flushed_at = asyncio.get_running_loop().time()
        text = frames.raw(stream.text)
        self._agent(stream, "assistant", {"text": text, "delta": delta}, droppable=True)
        message = self._message(text, self._clock.now_ms())
        chat = {"state": "delta", "deltaText": delta, "message": message}
        self._chat(stream, chat, droppable=True)

    def _tool(self, stream: _Stream, data: Json) -> None:
        self._flush(stream)
        stream.parted = True
        stream.seq += 1
        if self._tool_readers:
            head = self._agent_head(stream, "tool", data)
            self._send(self._tool_readers, head, droppable=False)

    def _end(self, stream: _Stream, result: RunResult) -> None:
        bad = replies.failed(result)
        aborted = result.stop_reason is StopReason.ABORTED
        text = replies.text(result)
        data: dict[str, Json] = {
            "phase": "error" if bad else "end",
            "startedAt": result.started_at,
            "endedAt": result.ended_at,
            "aborted": aborted,
            "stopReason": replies.stop_reason(result),
            "payloads": replies.payloads(result),
        }
        if bad:
            data["error"] = replies.failure(result).message
        elif aborted:
            data["status"] = "cancelled"
        else:
            data["terminalReply"] = {"disposition": "visible", "text": text}
        self._agent(stream, "lifecycle", data)
        chat: dict[str, Json] = {"stopReason": replies.stop_reason(result)}
        if bad:
            chat["state"] = "error"
            chat["errorMessage"] = replies.failure(result).message
            chat["errorKind"] = replies.error_kind(result)
        else:
            chat["state"] = "aborted" if aborted else "final"
        if text or not (bad or aborted):
            chat["message"] = self._message(text, result.ended_at)
        self._chat(stream, chat)

    def _agent(self, stream: _Stream, name: str, data: Json, *, droppable: bool = False) -> None:
        stream.seq += 1
        if self._readers:
            head = self._agent_head(stream, name, data)
            self._send(self._readers, head, droppable=droppable)

    def _agent_head(self, stream: _Stream, name: str, data: Json) -> bytes:
        run = stream.event
        return frames.event(
            "agent",
            {
                "runId": run.run_id,
                "sessionKey": run.session_key,
                "sessionId": run.session_id,
                "agentId": run.agent_id,
                "stream": name,
                "data": data,
                "seq": stream.seq,
                "ts": self._clock.now_ms(),
            },
        )

    def _chat(self, stream: _Stream, payload: dict[str, Json], *, droppable: bool = False) -> None:
        if not self._readers:
            return
        run = stream.event
        about = {
            "runId": run.run_id,
            "sessionKey": run.session_key,
            "agentId": run.agent_id,
            "seq": stream.seq,
        }
        self._send(self._readers, frames.event("chat", about | payload), droppable=droppable)

    @staticmethod
    def _message(text: Json, at: int) -> Json:
        content = [{"type": "text", "text": text}]
        return {"role": "assistant", "content": content, "timestamp": at}

    @staticmethod
    def _send(clients: set[Subscriber], head: bytes, *, droppable: bool) -> None:
        for client in clients:
            client.event(head, droppable=droppable)
