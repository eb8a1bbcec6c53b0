"""End of a run on the wire: for responses, events and repeated keys alike."""

import math
from typing import Final

from skerry.gateway.frames import ErrorCode, ErrorShape, Json
from skerry.model.run import RunFailure, RunResult, StopReason

_UNKNOWN: Final = RunFailure("internal", "The run failed.")
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
"""The wire's words for why a provider did not answer, by the code of the error."""


def failed(result: RunResult) -> bool:
    """Returns whether the run ended in an error; an aborted one did not."""
    return result.stop_reason in _FAILED


def failure(result: RunResult) -> RunFailure:
    """Returns why the run failed."""
    return result.error or _UNKNOWN


def reason(result: RunResult) -> Json:
    """Returns why the run failed, and the next step for a person where there is one."""
    why = failure(result)
    more = {"remedy": why.remedy, "attempts": list(why.attempts)}
    return {"error": why.message, **{name: value for name, value in more.items() if value}}


def error_kind(result: RunResult) -> str:
    """Returns the failure as one of the wire's few kinds."""
    if result.stop_reason is StopReason.TIMEOUT:
        return "timeout"
    return _KINDS.get(failure(result).code, "unknown")


def error_detail(result: RunResult) -> Json:
    """Returns which model failed, and why in a word; `error_kind` has no kind for a wrong key."""
    reason = _REASONS.get(failure(result).code, "unknown")
    asked = {"provider": result.provider[:300], "model": result.model[:300]}
    return {**{key: value for key, value in asked.items() if value}, "failoverReason": reason}


def text(result: RunResult) -> str:
    """Returns the whole reply."""
    return "\n\n".join(result.payloads)


def payloads(result: RunResult) -> list[Json]:
    """Returns the reply as the wire's list."""
    return [{"text": payload, "mediaUrl": None} for payload in result.payloads]


def terminal(result: RunResult) -> Json:
    """Returns the text that the person is shown in the end."""
    said = text(result)
    return {"disposition": "visible" if said else "silent", "text": said}


def stop_reason(result: RunResult) -> str:
    """Returns the wire's word for why the run ended: `stop`, `length`, or who aborted it."""
    match result.stop_reason:
        case StopReason.DONE:
            return "length" if result.cut_off else "stop"
        case StopReason.ABORTED:
            return result.aborted_by or "aborted"
        case other:
            return other.value


def final(result: RunResult) -> Json:
    """Returns the payload of the last response to `agent`."""
    usage = result.usage
    bad = failed(result)
    aborted = result.stop_reason is StopReason.ABORTED
    return {
        "runId": result.run_id,
        "status": "error" if bad else "ok",
        "summary": failure(result).message if bad else "aborted" if aborted else "completed",
        "result": {
            "payloads": payloads(result),
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
                "stopReason": stop_reason(result),
            },
        },
    }


def waited(result: RunResult) -> Json:
    """Returns the payload of `agent.wait` for a run that ended."""
    bad = failed(result)
    payload: dict[str, Json] = {
        "runId": result.run_id,
        "status": "error" if bad else "ok",
        "startedAt": result.started_at,
        "endedAt": result.ended_at,
        "stopReason": stop_reason(result),
    }
    if bad:
        payload |= reason(result)
    else:
        payload["terminalReply"] = terminal(result)
    return payload


def error(result: RunResult) -> ErrorShape:
    """Returns the error of a run that failed."""
    why = failure(result)
    details = {"code": why.code, **({"remedy": why.remedy} if why.remedy else {})}
    wait = None if why.retry_after is None else math.ceil(why.retry_after * 1000)
    return ErrorShape(ErrorCode.UNAVAILABLE, why.message, details, why.retryable, wait)
