"""Encoding of run events for clients: `agent` and `chat` events, throttled, encoded once.

Both families carry the text so far, so every delta repeats all before it. One pair per 150 ms keeps
a long answer from costing the square of its length, and a lost delta is healed by the next.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec import Struct, field

from skerry.gateway import frames
from skerry.gateway.frames import Json, StateVersion
from skerry.gateway.protocol_versions import DRESSES, AgentSays, ChatSays, Dress, Says, message
from skerry.infra.clock import Clock
from skerry.model.event import (
    CompactionEnded,
    CompactionStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    TextEnded,
    TextWithdrawn,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from skerry.model.ids import RunId
from skerry.policy import access
from skerry.policy.access import ANYBODY, READERS, Need, Role, Verb
from skerry.policy.decide import Actor, Request, decide
from skerry.sdk.features import registered

THROTTLE_SECONDS: Final = 0.15
MAX_TOPICS: Final = 256
"""Limit on the subscriptions of one client."""
_ABOUT: Final = 120
"""Characters that say what a tool was asked."""


class Subscriber(Protocol):
    """One client's end of the events."""

    @property
    def id(self) -> str:
        """The connection's id."""
        ...

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Takes the frame of an event, which still lacks its number."""
        ...


class _Audience(Struct, frozen=True):
    """The clients of one version of the protocol that hear of runs; `tools`: also of tools."""

    dress: Dress
    readers: set[Subscriber] = field(default_factory=set[Subscriber])
    tools: set[Subscriber] = field(default_factory=set[Subscriber])


class _Stream(Struct):
    """Events of one run sent so far. `seq` counts its `agent` events for each version."""

    event: RunEvent
    seq: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DRESSES, 0))
    text: str = ""
    thought: str = ""
    """Thinking of the present response so far."""
    pending: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    """Thinking that is not told yet, as `pending` is text."""
    parted: bool = False
    kept: int = 0
    """Length of the text of complete responses."""
    asked: dict[str, str] = field(default_factory=dict)
    """Arguments of the tool calls in progress, by their id."""
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
        own = {name: need for name, (need, _) in registered().events.items()}
        self._needs = {**access.EVENTS, **own}
        self._who: dict[Need, set[Subscriber]] = {need: set() for need in self._needs.values()}
        self._audiences = {protocol: _Audience(dress) for protocol, dress in DRESSES.items()}
        self._streams: dict[RunId, _Stream] = {}
        self._topics: dict[str, dict[str, Subscriber]] = {}
        self._subscribed: dict[str, tuple[Subscriber, set[str]]] = {}

    def add(
        self,
        subscriber: Subscriber,
        protocol: int,
        role: Role,
        scopes: tuple[str, ...],
        *,
        tools: bool,
    ) -> None:
        """Sends a client from now on what its role and scopes allow; `tools`: tool events too."""
        self._subscribed[subscriber.id] = subscriber, set()
        actor = Actor(role=role, scopes=scopes)
        for need, clients in self._who.items():
            if decide(Request(actor, Verb.RECEIVE, need=need)).allowed:
                clients.add(subscriber)
        if subscriber in self._who[READERS]:
            audience = self._audiences[protocol]
            audience.readers.add(subscriber)
            if tools:
                audience.tools.add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Tells a client nothing more."""
        for topic in tuple(self._subscribed.get(subscriber.id, (subscriber, set[str]()))[1]):
            self.unsubscribe(subscriber.id, topic)
        self._subscribed.pop(subscriber.id, None)
        for clients in self._who.values():
            clients.discard(subscriber)
        for audience in self._audiences.values():
            audience.readers.discard(subscriber)
            audience.tools.discard(subscriber)

    def subscribe(self, connection_id: str, topic: str) -> bool:
        """Tells a client of a topic until it leaves; returns False when it has too many already."""
        subscriber, topics = self._subscribed[connection_id]
        if topic not in topics and len(topics) >= MAX_TOPICS:
            return False
        topics.add(topic)
        self._topics.setdefault(topic, {})[connection_id] = subscriber
        return True

    def unsubscribe(self, connection_id: str, topic: str) -> None:
        """Tells a client no more of a topic."""
        if connection_id in self._subscribed:
            self._subscribed[connection_id][1].discard(topic)
        clients = self._topics.get(topic, {})
        clients.pop(connection_id, None)
        if not clients:
            self._topics.pop(topic, None)

    @property
    def has_topics(self) -> bool:
        """Returns whether any client subscribed to anything."""
        return bool(self._topics)

    def is_wanted(self, topic: str) -> bool:
        """Returns whether any client subscribed to the topic."""
        return topic in self._topics

    def text(self, run_id: RunId) -> str:
        """Returns the text of a running answer so far, sent or not; empty for an unknown run."""
        stream = self._streams.get(run_id)
        return stream.text + "".join(stream.pending) if stream else ""

    def tell(
        self,
        name: str,
        payload: Json,
        version: StateVersion | None = None,
        *,
        topic: str | None = None,
    ) -> None:
        """Sends an event to those who may get it by `access.EVENTS`, and subscribed to `topic`."""
        clients = self._who[self._needs[name]]
        if topic is not None:
            clients = clients.intersection(self._topics.get(topic, {}).values())
        if clients:
            _send(clients, frames.event(name, payload, version), droppable=False)

    def tick(self) -> None:
        """Tells everybody that the gateway lives."""
        head = frames.event("tick", {"ts": self._clock.now_ms()})
        _send(self._who[ANYBODY], head, droppable=True)

    def shutdown(self, reason: str, restart_expected_ms: int) -> None:
        """Tells all clients that the gateway stops, and when a next one starts at the latest."""
        self.tell("shutdown", {"reason": reason, "restartExpectedMs": restart_expected_ms})

    def publish(self, event: RunEvent) -> None:
        """Tells what a run did. Called in the event loop, in the order in which it happened."""
        stream = self._stream(event)
        match event.body:
            case TextDelta(delta):
                self._add_text(stream, delta)
            case ThinkingDelta(delta):
                stream.thoughts.append(delta)
                self._flush_soon(stream)
            case TextEnded() | TextWithdrawn() as body:
                self._part(stream, withdrawn=isinstance(body, TextWithdrawn))
            case RunStarted(at, joined):
                self._say(stream, lambda dress: dress.started(at, joined))
            case ToolStarted() | ToolFinished() as body:
                self._tool(stream, body)
            case CompactionStarted() | CompactionEnded() as body:
                said = AgentSays("compaction", _compaction(body))
                self._say(stream, lambda _: (said,))
            case RunEnded(result):
                self._flush(stream)
                del self._streams[event.run_id]
                self._say(stream, lambda dress: dress.ended(result))

    def _stream(self, event: RunEvent) -> _Stream:
        known = self._streams.get(event.run_id)
        if known is None:
            known = self._streams[event.run_id] = _Stream(event)
        return known

    def _add_text(self, stream: _Stream, delta: str) -> None:
        if stream.parted and stream.text:
            delta = "\n\n" + delta
        stream.parted = False
        stream.pending.append(delta)
        self._flush_soon(stream)

    def _part(self, stream: _Stream, *, withdrawn: bool) -> None:
        """Ends the present response."""
        if withdrawn:
            self._withdraw(stream)
            return
        self._flush_thoughts(stream)
        stream.thought = ""
        stream.kept = len(stream.text) + sum(map(len, stream.pending))
        stream.parted = True

    def _withdraw(self, stream: _Stream) -> None:
        """Takes back what the present response said; clients show the text that is left."""
        stream.stop_timer()
        stream.thoughts.clear()
        stream.thought = ""
        pending = "".join(stream.pending)
        stream.pending.clear()
        left = (stream.text + pending)[: stream.kept]
        if len(stream.text) > stream.kept:
            shown = message(left, self._clock.now_ms())
            said = AgentSays("assistant", {"text": left, "delta": "", "replace": True})
            self._say(stream, lambda dress: (said, dress.replaced(left, shown)))
        stream.text = left
        stream.parted = stream.kept > 0

    def _flush_soon(self, stream: _Stream) -> None:
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
        stream.flushed_at = asyncio.get_running_loop().time()
        self._flush_thoughts(stream)
        if not stream.pending:
            return
        delta = "".join(stream.pending)
        stream.pending.clear()
        stream.text += delta
        text = frames.raw(stream.text)
        said = AgentSays("assistant", {"text": text, "delta": delta})
        shown = message(text, self._clock.now_ms())
        self._say(stream, lambda dress: (said, dress.added(delta, shown)), droppable=True)

    def _flush_thoughts(self, stream: _Stream) -> None:
        if not stream.thoughts:
            return
        delta = "".join(stream.thoughts)
        stream.thoughts.clear()
        stream.thought += delta
        said = AgentSays("thinking", {"text": stream.thought, "delta": delta})
        self._say(stream, lambda _: (said,), droppable=True)

    def _say(
        self, stream: _Stream, say: Callable[[Dress], Says], *, droppable: bool = False
    ) -> None:
        """Tells those who read, encoded once for each version that somebody speaks."""
        for audience in self._audiences.values():
            if audience.readers:
                for says in say(audience.dress):
                    head = self._head(stream, audience.dress, says)
                    _send(audience.readers, head, droppable=droppable)

    def _tool(self, stream: _Stream, body: ToolStarted | ToolFinished) -> None:
        if isinstance(body, ToolFinished):
            about = stream.asked.pop(body.call_id, "")
            self._say_tool(stream, lambda dress: dress.tool_finished(body, about))
            return
        stream.asked[body.call_id] = _about(body.arguments)
        data = {
            "phase": "start",
            "name": body.name,
            "toolCallId": body.call_id,
            "args": body.arguments,
        }
        self._say_tool(stream, lambda _: AgentSays("tool", data))

    def _say_tool(self, stream: _Stream, say: Callable[[Dress], AgentSays]) -> None:
        self._flush(stream)
        stream.parted = True
        for audience in self._audiences.values():
            if audience.tools:
                head = self._head(stream, audience.dress, say(audience.dress))
                _send(audience.tools, head, droppable=False)
            else:
                stream.seq[audience.dress.protocol] += 1

    def _head(self, stream: _Stream, dress: Dress, says: AgentSays | ChatSays) -> bytes:
        if isinstance(says, ChatSays):
            payload = dress.chat(stream.event, says, stream.seq[dress.protocol])
            return frames.event("chat", payload)
        stream.seq[dress.protocol] += 1
        seq, now = stream.seq[dress.protocol], self._clock.now_ms()
        return frames.event("agent", dress.agent(stream.event, says, seq, now))


def _send(clients: set[Subscriber], head: bytes, *, droppable: bool) -> None:
    for client in clients:
        client.event(head, droppable=droppable)


def _compaction(body: CompactionStarted | CompactionEnded) -> dict[str, Json]:
    """Returns the payload of a compaction's start or end."""
    if isinstance(body, CompactionStarted):
        return {"phase": "start"}
    return {"phase": "end", "completed": body.done, "willRetry": body.will_retry}


def _about(arguments: dict[str, Any]) -> str:
    """Returns the beginning of the first text among a tool's arguments: most often a path."""
    texts = (argument for argument in arguments.values() if isinstance(argument, str))
    return next(texts, "")[:_ABOUT]
