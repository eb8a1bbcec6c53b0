"""Encodes run events for clients: `agent` and `chat` events, throttled, encoded once.

Both kinds contain the whole text so far. One pair per 150 ms avoids a quadratic cost for a long
answer, and the next delta replaces a lost one.
"""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from msgspec import Struct, field

from skerry.gateway import frames
from skerry.gateway.followers import NOBODY, ChatFollower, Followers
from skerry.gateway.frames import Json, StateVersion
from skerry.gateway.protocol_versions import (
    VERSIONS,
    AgentEvent,
    ChatPayload,
    Events,
    Version4,
    assistant_message,
)
from skerry.gateway.run_listeners import RunListeners
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
    ToolUpdated,
)
from skerry.model.ids import RunId
from skerry.policy import access
from skerry.policy.access import ADMINS, READERS, UNRESTRICTED, WRITERS, Need, Role, Verb
from skerry.policy.decide import Actor, Request, decide
from skerry.sdk.features import registered

THROTTLE_SECONDS: Final = 0.15
MAX_TOPICS: Final = 256
"""Limit on the subscriptions of one client."""
_ABOUT: Final = 120
"""Limit of the description of a tool call, in characters."""


class Subscriber(Protocol):
    """A client that receives events."""

    @property
    def id(self) -> str:
        """The connection's id."""
        ...

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Queues the frame of an event, to which the number is added."""
        ...


class _Audience(Struct, frozen=True):
    """Clients of one protocol version that receive run events; with `tools` also tool events."""

    version: Version4
    readers: set[Subscriber] = field(default_factory=set[Subscriber])
    tools: set[Subscriber] = field(default_factory=set[Subscriber])


class _Stream(Struct):
    """State of the events of one run. `seq` counts its `agent` events for each version."""

    event: RunEvent
    seq: dict[int, int] = field(default_factory=lambda: dict.fromkeys(VERSIONS, 0))
    text: str = ""
    thought: str = ""
    """Thinking of the present response."""
    pending: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    """Thinking that is not sent yet, as `pending` is for text."""
    parted: bool = False
    complete: int = 0
    """Length of the text of all complete responses."""
    tool_calls: dict[str, str] = field(default_factory=dict)
    """First argument of each running tool call, by the id of the call."""
    updates: dict[str, ToolUpdated] = field(default_factory=dict)
    """Newest unsent output of each running tool call, by its id."""
    flushed_at: float = float("-inf")
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Broadcast:
    """Sends events to all clients that may receive them. No method blocks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        feature_needs = {name: need for name, (need, _) in registered().events.items()}
        self._needs = {**access.EVENTS, **feature_needs}
        needs = {*self._needs.values(), READERS, WRITERS, ADMINS}  # plugins may add such events
        self._clients: dict[Need, set[Subscriber]] = {need: set() for need in needs}
        self._audiences = {protocol: _Audience(version) for protocol, version in VERSIONS.items()}
        self._streams: dict[RunId, _Stream] = {}
        self._topics: dict[str, dict[str, Subscriber]] = {}
        self._subscribed: dict[str, tuple[Subscriber, set[str]]] = {}
        self.listeners = RunListeners()
        self.followers = Followers()

    def add(
        self,
        subscriber: Subscriber,
        protocol: int,
        role: Role,
        scopes: tuple[str, ...],
        *,
        tools: bool,
    ) -> None:
        """Adds a client for the events of its role and scopes; with `tools` also tool events."""
        self._subscribed[subscriber.id] = subscriber, set()
        actor = Actor(role=role, scopes=scopes)
        for need, clients in self._clients.items():
            if decide(Request(actor, Verb.RECEIVE, need=need)).allowed:
                clients.add(subscriber)
        if subscriber in self._clients[READERS]:
            audience = self._audiences[protocol]
            audience.readers.add(subscriber)
            if tools:
                audience.tools.add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Removes a client."""
        for topic in tuple(self._subscribed.get(subscriber.id, (subscriber, set[str]()))[1]):
            self.unsubscribe(subscriber.id, topic)
        self._subscribed.pop(subscriber.id, None)
        self.followers.remove(subscriber)
        for clients in self._clients.values():
            clients.discard(subscriber)
        for audience in self._audiences.values():
            audience.readers.discard(subscriber)
            audience.tools.discard(subscriber)

    def has(self, name: str) -> bool:
        """Returns True when the event exists."""
        return name in self._needs

    def allow(self, name: str, need: Need) -> None:
        """Adds an event for clients that meet the need: read, write or admin scope."""
        self._needs[name] = need

    def forbid(self, name: str) -> None:
        """Removes an event."""
        del self._needs[name]

    def subscribe(self, connection_id: str, topic: str) -> bool:
        """Subscribes a client to a topic; returns False when its limit is reached."""
        subscriber, topics = self._subscribed[connection_id]
        if topic not in topics and len(topics) >= MAX_TOPICS:
            return False
        topics.add(topic)
        self._topics.setdefault(topic, {})[connection_id] = subscriber
        return True

    def unsubscribe(self, connection_id: str, topic: str) -> None:
        """Ends a client's subscription to a topic."""
        if connection_id in self._subscribed:
            self._subscribed[connection_id][1].discard(topic)
        clients = self._topics.get(topic, {})
        clients.pop(connection_id, None)
        if not clients:
            self._topics.pop(topic, None)

    @property
    def has_topics(self) -> bool:
        """Returns True while a client has a subscription."""
        return bool(self._topics)

    def is_wanted(self, topic: str) -> bool:
        """Returns True while a client is subscribed to the topic."""
        return topic in self._topics

    def text(self, run_id: RunId) -> str:
        """Returns the text of a running answer so far, sent or not; empty for an unknown run."""
        stream = self._streams.get(run_id)
        return stream.text + "".join(stream.pending) if stream else ""

    def send(
        self,
        name: str,
        payload: Json,
        version: StateVersion | None = None,
        *,
        topic: str | None = None,
    ) -> None:
        """Sends an event to the clients with its scope, with `topic` only to its subscribers."""
        clients = self._clients[self._needs[name]]
        if topic is not None:
            clients = clients.intersection(self._topics.get(topic, {}).values())
        if clients:
            _send(clients, frames.event(name, payload, version), droppable=False)

    def receivers(self, name: str) -> int:
        """Returns the number of clients that may receive the event."""
        return len(self._clients[self._needs[name]])

    def tick(self) -> None:
        """Sends a tick to every client."""
        head = frames.event("tick", {"ts": self._clock.now_ms()})
        _send(self._clients[UNRESTRICTED], head, droppable=True)

    def shutdown(self, reason: str, restart_expected_ms: int) -> None:
        """Announces the stop of the gateway, and the time of the next start, to all clients."""
        self.send("shutdown", {"reason": reason, "restartExpectedMs": restart_expected_ms})

    def publish(self, event: RunEvent) -> None:  # noqa: C901 - a case for each kind of event
        """Sends an event of a run. Call it in the event loop, in the order of the events."""
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
                self._send_run(stream, lambda version: version.started(at, joined))
            case ToolStarted() | ToolUpdated() | ToolFinished() as body:
                self._tool(stream, body)
            case CompactionStarted() | CompactionEnded() as body:
                compaction = AgentEvent("compaction", _compaction(body))
                self._send_run(stream, lambda _: (compaction,))
            case RunEnded(result):
                self._flush(stream)
                del self._streams[event.run_id]
                self._send_run(stream, lambda version: version.ended(result))
        for listener in self.listeners.get(event.run_id, ()):
            listener(event.body)

    def _stream(self, event: RunEvent) -> _Stream:
        stream = self._streams.get(event.run_id)
        if stream is None:
            stream = self._streams[event.run_id] = _Stream(event)
        return stream

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
        stream.complete = len(stream.text) + sum(map(len, stream.pending))
        stream.parted = True

    def _withdraw(self, stream: _Stream) -> None:
        """Withdraws the text of the present response; clients get the remaining text."""
        stream.stop_timer()
        stream.thoughts.clear()
        stream.thought = ""
        pending = "".join(stream.pending)
        stream.pending.clear()
        text = (stream.text + pending)[: stream.complete]
        if len(stream.text) > stream.complete:
            message = assistant_message(text, self._clock.now_ms())
            event = AgentEvent("assistant", {"text": text, "delta": "", "replace": True})
            self._send_run(stream, lambda version: (event, version.replaced(text, message)))
        stream.text = text
        stream.parted = stream.complete > 0

    def _flush_soon(self, stream: _Stream) -> None:
        if stream.timer is not None:
            return
        loop = asyncio.get_running_loop()
        delay = stream.flushed_at + THROTTLE_SECONDS - loop.time()
        if delay <= 0:
            self._flush(stream)
        else:
            stream.timer = loop.call_later(delay, self._flush, stream)

    def _flush(self, stream: _Stream) -> None:
        stream.stop_timer()
        stream.flushed_at = asyncio.get_running_loop().time()
        self._flush_thoughts(stream)
        self._flush_updates(stream)
        if not stream.pending:
            return
        delta = "".join(stream.pending)
        stream.pending.clear()
        stream.text += delta
        text = frames.raw(stream.text)
        event = AgentEvent("assistant", {"text": text, "delta": delta})
        message = assistant_message(text, self._clock.now_ms())
        self._send_run(
            stream, lambda version: (event, version.added(delta, message)), droppable=True
        )

    def _flush_thoughts(self, stream: _Stream) -> None:
        if not stream.thoughts:
            return
        delta = "".join(stream.thoughts)
        stream.thoughts.clear()
        stream.thought += delta
        event = AgentEvent("thinking", {"text": stream.thought, "delta": delta})
        self._send_run(stream, lambda _: (event,), droppable=True)

    def _flush_updates(self, stream: _Stream) -> None:
        """Sends the newest output of each tool call; output that a client missed is sent again."""
        updates = tuple(stream.updates.values())
        stream.updates.clear()
        for body in updates:
            self._send_to_tools(stream, lambda version: version.tool_updated(body), droppable=True)  # noqa: B023 - called at once

    def _send_run(
        self, stream: _Stream, encode: Callable[[Version4], Events], *, droppable: bool = False
    ) -> None:
        """Sends run events to its readers, encoded once for each protocol version in use."""
        for protocol, audience in self._audiences.items():
            followers = self.followers.clients.get((protocol, stream.event.session_key), NOBODY)
            if audience.readers or followers:
                for event in encode(audience.version):
                    head = self._head(stream, audience.version, event)
                    _send(audience.readers, head, droppable=droppable)
                    if isinstance(event, ChatPayload):
                        _send(followers, head, droppable=droppable)

    def _tool(self, stream: _Stream, body: ToolStarted | ToolUpdated | ToolFinished) -> None:
        if isinstance(body, ToolUpdated):
            stream.updates[body.call_id] = body
            self._flush_soon(stream)
            return
        if isinstance(body, ToolFinished):
            about = stream.tool_calls.pop(body.call_id, "")
            stream.updates.pop(body.call_id, None)  # the result has it all
            self._send_tool(stream, lambda version: version.tool_finished(body, about))
            return
        stream.tool_calls[body.call_id] = _first_text(body.arguments)
        data = {
            "phase": "start",
            "name": body.name,
            "toolCallId": body.call_id,
            "args": body.arguments,
        }
        self._send_tool(stream, lambda _: AgentEvent("tool", data))

    def _send_tool(self, stream: _Stream, encode: Callable[[Version4], AgentEvent]) -> None:
        self._flush(stream)
        stream.parted = True
        self._send_to_tools(stream, encode)

    def _send_to_tools(
        self, stream: _Stream, encode: Callable[[Version4], AgentEvent], *, droppable: bool = False
    ) -> None:
        for audience in self._audiences.values():
            if audience.tools:
                head = self._head(stream, audience.version, encode(audience.version))
                _send(audience.tools, head, droppable=droppable)
            else:
                stream.seq[audience.version.protocol] += 1

    def _head(self, stream: _Stream, version: Version4, event: AgentEvent | ChatPayload) -> bytes:
        if isinstance(event, ChatPayload):
            payload = version.chat(stream.event, event, stream.seq[version.protocol])
            return frames.event("chat", payload)
        stream.seq[version.protocol] += 1
        seq, now = stream.seq[version.protocol], self._clock.now_ms()
        return frames.event("agent", version.agent(stream.event, event, seq, now))


def _send(clients: AbstractSet[ChatFollower], head: bytes, *, droppable: bool) -> None:
    for client in clients:
        client.event(head, droppable=droppable)


def _compaction(body: CompactionStarted | CompactionEnded) -> dict[str, Json]:
    """Returns the payload of a compaction's start or end."""
    if isinstance(body, CompactionStarted):
        return {"phase": "start"}
    return {"phase": "end", "completed": body.done, "willRetry": body.will_retry}


def _first_text(arguments: dict[str, Any]) -> str:
    """Returns the beginning of the first text among a tool's arguments, often a path."""
    texts = (argument for argument in arguments.values() if isinstance(argument, str))
    return next(texts, "")[:_ABOUT]
