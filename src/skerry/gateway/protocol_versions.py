"""The two dresses of the wire: what versions 3 and 4 of the protocol say differently of one thing.

A client passes over keys that it does not know. So both versions get the same payload wherever one
can hold what each wants, and only what cannot be shared, or is told often, stands here.
"""

import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct

from skerry.gateway import replies
from skerry.gateway.frames import ErrorCode, ErrorShape, Json
from skerry.model.event import RunEvent, ToolFinished
from skerry.model.run import RunResult, StopReason

Object = dict[str, Json]

_TOOL_TEXT: Final = 8000
"""Characters of a tool's result that an event shows."""

_POLICY_3: Final = ("maxPayload", "maxBufferedBytes", "tickIntervalMs")


class AgentSays(Struct, frozen=True):
    """An `agent` event, less the run it belongs to and its number."""

    stream: str
    data: Object


class ChatSays(Struct, frozen=True):
    """A `chat` event, less the run it belongs to and its number."""

    payload: Object


Says = tuple[AgentSays | ChatSays, ...]


class Dress(Protocol):
    """Encoding of events and answers in one version of the protocol."""

    @property
    def protocol(self) -> int:
        """The version."""
        ...

    def hello(self, hello: Object) -> Object:
        """Returns the payload of `hello-ok`, given what both versions tell."""
        ...

    def error(self, shape: ErrorShape) -> ErrorShape:
        """Returns the error with the codes that this version has."""
        ...

    def accepted(self, run_id: str, key: str, agent: str, at: int) -> Object:
        """Returns the first response to `agent`."""
        ...

    def in_flight(self, run_id: str, key: str, agent: str) -> Object | None:
        """Returns the only response to a key whose run is on.

        None means that it is answered like the first request: accepted now, the end when it comes.
        """
        ...

    def agent(self, run: RunEvent, says: AgentSays, seq: int, ts: int) -> Object:
        """Returns the payload of an `agent` event."""
        ...

    def chat(self, run: RunEvent, says: ChatSays, seq: int) -> Object:
        """Returns the payload of a `chat` event."""
        ...

    def started(self, at: int, joined: str | None) -> Says:
        """Encodes the start of a run, or the entry of its message into the run `joined`."""
        ...

    def added(self, delta: str, message: Json) -> ChatSays:
        """Returns the `chat` event of added text; `message` has the text so far."""
        ...

    def replaced(self, text: str, message: Json) -> ChatSays:
        """Returns the `chat` event of text that became shorter: what a failed model said."""
        ...

    def tool_finished(self, body: ToolFinished, about: str) -> AgentSays:
        """Returns how a tool call ended; `about` says in a few words what it was asked."""
        ...

    def ended(self, result: RunResult) -> Says:
        """Encodes the end of a run."""
        ...


class Version3:
    """Encoding of the gateways and clients of early 2026."""

    protocol: Final = 3

    def hello(self, hello: Object) -> Object:
        """Adds the host; leaves out what came later. `auth` is there for a device's token only."""
        dressed = {
            **hello,
            "server": {**hello["server"], "host": socket.gethostname()},
            "features": {key: hello["features"][key] for key in ("methods", "events")},
            "policy": {key: hello["policy"][key] for key in _POLICY_3},
        }
        if "deviceToken" not in hello["auth"]:
            del dressed["auth"]
        return dressed

    def error(self, shape: ErrorShape) -> ErrorShape:
        """Turns a forbidden request into an invalid one: this version has no other code."""
        if shape.code is ErrorCode.FORBIDDEN:
            return ErrorShape(ErrorCode.INVALID_REQUEST, shape.message)
        return shape

    def accepted(self, run_id: str, key: str, agent: str, at: int) -> Object:
        """Returns the run and when it was accepted."""
        del key, agent
        return {"runId": run_id, "status": "accepted", "acceptedAt": at}

    def in_flight(self, run_id: str, key: str, agent: str) -> None:
        """Clients of this version take a single response other than accepted for the end."""

    def agent(self, run: RunEvent, says: AgentSays, seq: int, ts: int) -> Object:
        """Returns the payload: run, stream, data, key, number, time."""
        return {
            "runId": run.run_id,
            "stream": says.stream,
            "data": says.data,
            "sessionKey": run.session_key,
            "seq": seq,
            "ts": ts,
        }

    def chat(self, run: RunEvent, says: ChatSays, seq: int) -> Object:
        """Returns the payload: run, key, number, then what is said."""
        return {"runId": run.run_id, "sessionKey": run.session_key, "seq": seq, **says.payload}

    def started(self, at: int, joined: str | None) -> Says:
        """Returns the start of the life cycle."""
        return (_started(at, joined),)

    def added(self, delta: str, message: Json) -> ChatSays:
        """Returns the text so far."""
        del delta
        return ChatSays({"state": "delta", "message": message})

    def replaced(self, text: str, message: Json) -> ChatSays:
        """Returns the text that is left."""
        return self.added(text, message)

    def tool_finished(self, body: ToolFinished, about: str) -> AgentSays:
        """Returns that it ended, without the result, which the history has."""
        data = {"phase": "result", "name": body.name, "toolCallId": body.call_id}
        return AgentSays("tool", {**data, "meta": about, "isError": body.is_error})

    def ended(self, result: RunResult) -> Says:
        """Returns the end of the life cycle and the last `chat` event."""
        data: Object = {"phase": "end", "endedAt": result.ended_at, **_joined(result.joined)}
        chat = _last_chat(result)
        if replies.failed(result):
            data |= {"phase": "error", **replies.reason(result)}
        elif result.stop_reason is StopReason.ABORTED:
            data["aborted"] = True
            chat["stopReason"] = replies.stop_reason(result)
        elif result.cut_off:
            chat["stopReason"] = replies.stop_reason(result)
        return AgentSays("lifecycle", data), ChatSays(chat)


class Version4:
    """Encoding of the gateways and clients of late 2026."""

    protocol: Final = 4

    def hello(self, hello: Object) -> Object:
        """Returns it as it is."""
        return hello

    def error(self, shape: ErrorShape) -> ErrorShape:
        """Returns it as it is."""
        return shape

    def accepted(self, run_id: str, key: str, agent: str, at: int) -> Object:
        """Returns the run, whose it is, and when it was accepted."""
        about = {"runId": run_id, "sessionKey": key, "agentId": agent}
        return {**about, "status": "accepted", "acceptedAt": at}

    def in_flight(self, run_id: str, key: str, agent: str) -> Object:
        """Returns that it is on; its end goes to who asked first."""
        return {"runId": run_id, "sessionKey": key, "agentId": agent, "status": "in_flight"}

    def agent(self, run: RunEvent, says: AgentSays, seq: int, ts: int) -> Object:
        """Returns the payload, with session and agent."""
        return {
            "runId": run.run_id,
            "sessionKey": run.session_key,
            "sessionId": run.session_id,
            "agentId": run.agent_id,
            "stream": says.stream,
            "data": says.data,
            "seq": seq,
            "ts": ts,
        }

    def chat(self, run: RunEvent, says: ChatSays, seq: int) -> Object:
        """Returns the payload, with the agent."""
        return {
            "runId": run.run_id,
            "sessionKey": run.session_key,
            "agentId": run.agent_id,
            "seq": seq,
            **says.payload,
        }

    def started(self, at: int, joined: str | None) -> Says:
        """Returns the start of the life cycle, and that the model is asked now."""
        if joined:
            return (_started(at, joined),)
        return (
            _started(at, joined),
            AgentSays("run_status", {"phase": "starting_model"}),
            ChatSays({"state": "status", "phase": "starting_model"}),
        )

    def added(self, delta: str, message: Json) -> ChatSays:
        """Encodes the text added to the message so far."""
        return ChatSays({"state": "delta", "deltaText": delta, "message": message})

    def replaced(self, text: str, message: Json) -> ChatSays:
        """Returns the text that is left, marked as the whole."""
        return ChatSays({"state": "delta", "deltaText": text, "replace": True, "message": message})

    def tool_finished(self, body: ToolFinished, about: str) -> AgentSays:
        """Returns that it ended, with the beginning of its result."""
        shown = [{"type": "text", "text": body.text[:_TOOL_TEXT]}]
        data = {"phase": "result", "name": body.name, "toolCallId": body.call_id, "meta": about}
        return AgentSays("tool", {**data, "isError": body.is_error, "result": {"content": shown}})

    def ended(self, result: RunResult) -> Says:
        """Returns the tokens, the end of the life cycle, and the last `chat` event.

        There is no phase `finishing`: an end is told after its COMMIT, when all is settled.
        """
        aborted = result.stop_reason is StopReason.ABORTED
        reason = replies.stop_reason(result)
        data: Object = {
            "phase": "end",
            "startedAt": result.started_at,
            "endedAt": result.ended_at,
            "aborted": aborted,
            "stopReason": reason,
            "executionSettled": True,
            "payloads": replies.payloads(result),
            **_joined(result.joined),
        }
        chat: Object = {**_last_chat(result), "stopReason": reason}
        if replies.failed(result):
            data |= {"phase": "error", **replies.reason(result)}
            chat["errorKind"] = replies.error_kind(result)
            chat["errorDetail"] = replies.error_detail(result)
        elif aborted:
            data["status"] = "cancelled"
        else:
            data["terminalReply"] = replies.terminal(result)
        if result.notices:
            data["notices"] = list(result.notices)
        said = AgentSays("lifecycle", data), ChatSays(chat)
        tokens = result.usage.output
        return (AgentSays("usage", {"outputTokens": tokens}), *said) if tokens else said


DRESSES: Final[Mapping[int, Dress]] = MappingProxyType({3: Version3(), 4: Version4()})
"""The dress of each version that is served."""


def message(text: Json, at: int) -> Json:
    """Encodes a message of the assistant."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "timestamp": at,
    }


def _started(at: int, joined: str | None) -> AgentSays:
    return AgentSays("lifecycle", {"phase": "start", "startedAt": at, **_joined(joined)})


def _joined(host: str | None) -> Object:
    """Returns the run that the message has entered; the published `chat` events have no room."""
    return {"joined": host} if host else {}


def _last_chat(result: RunResult) -> Object:
    bad = replies.failed(result)
    aborted = result.stop_reason is StopReason.ABORTED
    text = replies.text(result)
    chat: Object = {"state": "error" if bad else "aborted" if aborted else "final"}
    if bad:
        chat["errorMessage"] = replies.failure(result).message
    if text or not (bad or aborted):
        chat["message"] = message(text, result.ended_at)
    return chat
