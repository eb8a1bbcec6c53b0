"""Encodes responses and events of runs for versions 3 and 4 of the protocol.

Clients ignore unknown keys, so both versions get the same payload where one can contain the keys of
both. Version 4 is the base; version 3 overrides payloads that cannot be shared, or are sent often.
"""

import math
import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.gateway.frames import ErrorCode, ErrorShape, Json
from skerry.model.event import RunEvent, ToolFinished, ToolUpdated
from skerry.model.run import RunFailure, RunResult, StopReason

Object = dict[str, Json]

_TOOL_TEXT: Final = 8000
"""Limit of a tool's result in an event, in characters."""

_POLICY_3: Final = ("maxPayload", "maxBufferedBytes", "tickIntervalMs")
_UNKNOWN_FAILURE: Final = RunFailure("internal", "The run failed.")
_FAILED: Final = frozenset({StopReason.ERROR, StopReason.TIMEOUT, StopReason.INTERRUPTED})
_KINDS: Final = {"model.rate_limit": "rate_limit", "model.overflow": "context_length"}
_REASONS: Final = {
    "model.auth": "auth",
    "model.sign_in": "auth",
    "model.billing": "billing",
    "model.rate_limit": "rate_limit",
    "model.overloaded": "overloaded",
    "model.overflow": "context_overflow",
    "model.request": "format",
    "model.connection": "timeout",
    "model.not_found": "model_not_found",
}
"""Wire values for the reason why a provider did not answer, by error code."""


class AgentEvent(Struct, frozen=True):
    """An `agent` event without its run and its number."""

    stream: str
    data: Object


class ChatPayload(Struct, frozen=True):
    """A `chat` event without its run and its number."""

    payload: Object


Events = tuple[AgentEvent | ChatPayload, ...]


class Version4:
    """Encoding of the gateways and clients of late 2026."""

    protocol: int = 4

    def hello(self, hello: Object) -> Object:
        """Returns the payload of `hello-ok` from the common payload."""
        return hello

    def error(self, shape: ErrorShape) -> ErrorShape:
        """Returns the error with the codes of this version."""
        return shape

    def accepted(self, run_id: str, key: str, agent: str, at: int) -> Object:
        """Returns the first response to `agent`."""
        about = {"runId": run_id, "sessionKey": key, "agentId": agent}
        return {**about, "status": "accepted", "acceptedAt": at}

    def in_flight(self, run_id: str, key: str, agent: str) -> Object | None:
        """Returns the only response to a repeated key whose run has not ended.

        None means the usual two responses: accepted now, and the end of the run.
        """
        return {"runId": run_id, "sessionKey": key, "agentId": agent, "status": "in_flight"}

    def agent(self, run: RunEvent, event: AgentEvent, seq: int, ts: int) -> Object:
        """Returns the payload of an `agent` event."""
        return {
            "runId": run.run_id,
            "sessionKey": run.session_key,
            "sessionId": run.session_id,
            "agentId": run.agent_id,
            "stream": event.stream,
            "data": event.data,
            "seq": seq,
            "ts": ts,
        }

    def chat(self, run: RunEvent, event: ChatPayload, seq: int) -> Object:
        """Returns the payload of a `chat` event."""
        return {
            "runId": run.run_id,
            "sessionKey": run.session_key,
            "agentId": run.agent_id,
            "seq": seq,
            **event.payload,
        }

    def started(self, at: int, joined: str | None) -> Events:
        """Encodes the start of a run, or the entry of its message into the run `joined`."""
        if joined:
            return (_started(at, joined),)
        return (
            _started(at, joined),
            AgentEvent("run_status", {"phase": "starting_model"}),
            ChatPayload({"state": "status", "phase": "starting_model"}),
        )

    def added(self, delta: str, message: Json) -> ChatPayload:
        """Returns the `chat` event of added text; `message` has the whole text so far."""
        return ChatPayload({"state": "delta", "deltaText": delta, "message": message})

    def replaced(self, text: str, message: Json) -> ChatPayload:
        """Returns the `chat` event after the text of a failed model was withdrawn."""
        return ChatPayload(
            {"state": "delta", "deltaText": text, "replace": True, "message": message}
        )

    def tool_finished(self, body: ToolFinished, about: str) -> AgentEvent:
        """Returns the end of a tool call; `about` describes the call in a few words."""
        data = {"phase": "result", "name": body.name, "toolCallId": body.call_id, "meta": about}
        result: Object = {"content": [{"type": "text", "text": body.text[:_TOOL_TEXT]}]}
        if body.details is not None:
            result["details"] = body.details
        return AgentEvent("tool", {**data, "isError": body.is_error, "result": result})

    def tool_updated(self, body: ToolUpdated) -> AgentEvent:
        """Returns the output of a tool call so far; only the end of a long output."""
        partial: Object = {"content": [{"type": "text", "text": body.text[-_TOOL_TEXT:]}]}
        if body.details is not None:
            partial["details"] = body.details
        data = {"phase": "update", "name": body.name, "toolCallId": body.call_id}
        return AgentEvent("tool", {**data, "partialResult": partial})

    def ended(self, result: RunResult) -> Events:
        """Returns the tokens, the end of the life cycle, and the last `chat` event.

        There is no phase `finishing`: the end is sent after the COMMIT.
        """
        aborted = result.stop_reason is StopReason.ABORTED
        reason = _stop_reason(result)
        data: Object = {
            "phase": "end",
            "startedAt": result.started_at,
            "endedAt": result.ended_at,
            "aborted": aborted,
            "stopReason": reason,
            "executionSettled": True,
            "payloads": _payloads(result),
            **_joined(result.joined),
        }
        chat: Object = {**_last_chat(result), "stopReason": reason}
        if has_failed(result):
            data |= {"phase": "error", **_failure_payload(result)}
            chat["errorKind"] = _error_kind(result)
            chat["errorDetail"] = _error_detail(result)
        elif aborted:
            data["status"] = "cancelled"
        else:
            data["terminalReply"] = _terminal_reply(result)
        if result.notices:
            data["notices"] = list(result.notices)
        end = AgentEvent("lifecycle", data), ChatPayload(chat)
        tokens = result.usage.output
        return (AgentEvent("usage", {"outputTokens": tokens}), *end) if tokens else end


class Version3(Version4):
    """Encoding of the gateways and clients of early 2026."""

    protocol = 3

    def hello(self, hello: Object) -> Object:
        """Adds the host and removes later keys; `auth` contains a device's token only."""
        payload = {
            **hello,
            "server": {**hello["server"], "host": socket.gethostname()},
            "features": {key: hello["features"][key] for key in ("methods", "events")},
            "policy": {key: hello["policy"][key] for key in _POLICY_3},
        }
        if "deviceToken" not in hello["auth"]:
            del payload["auth"]
        return payload

    def error(self, shape: ErrorShape) -> ErrorShape:
        """Replaces the code of a forbidden request, which version 3 does not have."""
        if shape.code is ErrorCode.FORBIDDEN:
            return ErrorShape(ErrorCode.INVALID_REQUEST, shape.message)
        return shape

    def accepted(self, run_id: str, key: str, agent: str, at: int) -> Object:
        """Returns the run and the time at which it was accepted."""
        del key, agent
        return {"runId": run_id, "status": "accepted", "acceptedAt": at}

    def in_flight(self, run_id: str, key: str, agent: str) -> None:
        """Returns an accepted response, since a version 3 client takes any other as the end."""

    def agent(self, run: RunEvent, event: AgentEvent, seq: int, ts: int) -> Object:
        """Returns the payload without session id and agent."""
        return {
            "runId": run.run_id,
            "stream": event.stream,
            "data": event.data,
            "sessionKey": run.session_key,
            "seq": seq,
            "ts": ts,
        }

    def chat(self, run: RunEvent, event: ChatPayload, seq: int) -> Object:
        """Returns the payload without the agent."""
        return {"runId": run.run_id, "sessionKey": run.session_key, "seq": seq, **event.payload}

    def started(self, at: int, joined: str | None) -> Events:
        """Returns the start of the life cycle."""
        return (_started(at, joined),)

    def added(self, delta: str, message: Json) -> ChatPayload:
        """Returns the text so far."""
        del delta
        return ChatPayload({"state": "delta", "message": message})

    def replaced(self, text: str, message: Json) -> ChatPayload:
        """Returns the remaining text."""
        return self.added(text, message)

    def tool_finished(self, body: ToolFinished, about: str) -> AgentEvent:
        """Returns the end without the result, which the history has."""
        data = {"phase": "result", "name": body.name, "toolCallId": body.call_id}
        return AgentEvent("tool", {**data, "meta": about, "isError": body.is_error})

    def tool_updated(self, body: ToolUpdated) -> AgentEvent:
        """Returns the sign that a tool call makes progress, without its output."""
        data = {"phase": "update", "name": body.name, "toolCallId": body.call_id}
        return AgentEvent("tool", data)

    def ended(self, result: RunResult) -> Events:
        """Returns the end of the life cycle and the last `chat` event."""
        data: Object = {"phase": "end", "endedAt": result.ended_at, **_joined(result.joined)}
        chat = _last_chat(result)
        if has_failed(result):
            data |= {"phase": "error", **_failure_payload(result)}
        elif result.stop_reason is StopReason.ABORTED:
            data["aborted"] = True
            chat["stopReason"] = _stop_reason(result)
        elif result.cut_off:
            chat["stopReason"] = _stop_reason(result)
        return AgentEvent("lifecycle", data), ChatPayload(chat)


VERSIONS: Final[Mapping[int, Version4]] = MappingProxyType({3: Version3(), 4: Version4()})
"""Encodings by supported version."""


def assistant_message(text: Json, at: int) -> Json:
    """Encodes a message of the assistant."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "timestamp": at,
    }


def has_failed(result: RunResult) -> bool:
    """Returns True when the run ended with an error; False when it was aborted."""
    return result.stop_reason in _FAILED


def final_response(result: RunResult) -> Json:
    """Returns the payload of the last response to `agent`."""
    usage = result.usage
    failed = has_failed(result)
    aborted = result.stop_reason is StopReason.ABORTED
    return {
        "runId": result.run_id,
        "status": "error" if failed else "ok",
        "summary": _failure(result).message if failed else "aborted" if aborted else "completed",
        "result": {
            "payloads": _payloads(result),
            "meta": {
                "durationMs": max(0, result.ended_at - result.started_at),
                "agentMeta": {
                    "sessionId": result.session_id,
                    "provider": result.provider,
                    "model": result.model,
                    "usage": {
                        "input": usage.input,
                        "output": usage.output,
                        "cacheRead": usage.cache_read,
                        "cacheWrite": usage.cache_write,
                        "total": usage.total_tokens,
                    },
                },
                "aborted": aborted,
                "stopReason": _stop_reason(result),
            },
        },
    }


def wait_response(result: RunResult) -> Json:
    """Returns the payload of `agent.wait` for an ended run."""
    failed = has_failed(result)
    payload: Object = {
        "runId": result.run_id,
        "status": "error" if failed else "ok",
        "startedAt": result.started_at,
        "endedAt": result.ended_at,
        "stopReason": _stop_reason(result),
    }
    if failed:
        return payload | _failure_payload(result)
    return payload | {"terminalReply": _terminal_reply(result)}


def run_error(result: RunResult) -> ErrorShape:
    """Returns the error of a failed run."""
    failure = _failure(result)
    details = {"code": failure.code, **({"remedy": failure.remedy} if failure.remedy else {})}
    wait = None if failure.retry_after is None else math.ceil(failure.retry_after * 1000)
    return ErrorShape(ErrorCode.UNAVAILABLE, failure.message, details, failure.retryable, wait)


def _failure(result: RunResult) -> RunFailure:
    return result.error or _UNKNOWN_FAILURE


def _failure_payload(result: RunResult) -> Object:
    """Returns the failure of a run, with the remedy if there is one."""
    failure = _failure(result)
    details = {"remedy": failure.remedy, "attempts": list(failure.attempts)}
    return {"error": failure.message, **{name: value for name, value in details.items() if value}}


def _error_kind(result: RunResult) -> str:
    """Returns the kind of the failure on the wire."""
    if result.stop_reason is StopReason.TIMEOUT:
        return "timeout"
    return _KINDS.get(_failure(result).code, "unknown")


def _error_detail(result: RunResult) -> Json:
    """Returns the failed model and the reason in a word; `_error_kind` has none for a wrong key."""
    reason = _REASONS.get(_failure(result).code, "unknown")
    model = {"provider": result.provider[:300], "model": result.model[:300]}
    return {**{key: value for key, value in model.items() if value}, "failoverReason": reason}


def _text(result: RunResult) -> str:
    return "\n\n".join(result.payloads)


def _payloads(result: RunResult) -> list[Json]:
    return [{"text": payload, "mediaUrl": None} for payload in result.payloads]


def _terminal_reply(result: RunResult) -> Json:
    """Returns the final text for the person."""
    text = _text(result)
    return {"disposition": "visible" if text else "silent", "text": text}


def _stop_reason(result: RunResult) -> str:
    """Returns the stop reason on the wire: `stop`, `length`, or the source of an abort."""
    match result.stop_reason:
        case StopReason.DONE:
            return "length" if result.cut_off else "stop"
        case StopReason.ABORTED:
            return result.aborted_by or "aborted"
        case other:
            return other.value


def _started(at: int, joined: str | None) -> AgentEvent:
    return AgentEvent("lifecycle", {"phase": "start", "startedAt": at, **_joined(joined)})


def _joined(host: str | None) -> Object:
    """Returns the run that the message has entered; `chat` events have no field for it."""
    return {"joined": host} if host else {}


def _last_chat(result: RunResult) -> Object:
    failed = has_failed(result)
    aborted = result.stop_reason is StopReason.ABORTED
    text = _text(result)
    chat: Object = {"state": "error" if failed else "aborted" if aborted else "final"}
    if failed:
        chat["errorMessage"] = _failure(result).message
    if text or not (failed or aborted):
        chat["message"] = assistant_message(text, result.ended_at)
    return chat
