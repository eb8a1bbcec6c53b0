"""Methods that start, await and stop runs: `agent`, `agent.wait`, `chat.send`, `chat.abort`."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from msgspec.structs import replace
from pydantic import BeforeValidator, Field, model_validator

from skerry.commands.table import CommandCall, tell_command
from skerry.gateway import attachments, replies
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import (
    MAX_TEXT,
    Call,
    IdempotencyKey,
    Message,
    Method,
    Name,
    Params,
    RefusedError,
)
from skerry.gateway.methods.keys import session_key
from skerry.hooks.events import WEBCHAT
from skerry.model.ids import RunId
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.run import Admission, AdmissionStatus, Expected, RunRequest, RunResult
from skerry.model.thinking import ThinkingLevel, thinking_level
from skerry.store import sessions

_WAIT_MS: Final = 30_000
_LONGEST_MS: Final = 2_147_000_000
_MAX_SYSTEM: Final = 65_536


def _level(value: object) -> object:
    return thinking_level(value) if isinstance(value, str) else value


def _require(message: str, images: list[Any] | None) -> None:
    """Refuse what has neither a word nor an image: a model would be paid to answer nothing."""
    if not message.strip() and not images:
        problem = "message is empty"
        raise ValueError(problem)


Milliseconds = Annotated[int, Field(ge=0, le=_LONGEST_MS)]
Attachment = Annotated[dict[str, Any], Field(max_length=32)]
Attachments = Annotated[list[Attachment], Field(max_length=attachments.MAX_COUNT)]
Thinking = Annotated[ThinkingLevel, BeforeValidator(_level)]


class AgentParams(Params):
    """Parameters of `agent`. Those behind `attachments` clients send in vain."""

    message: Message
    idempotency_key: IdempotencyKey
    session_key: Name | None = None
    session_id: Name | None = None
    agent_id: Name | None = None
    extra_system_prompt: Annotated[str, Field(max_length=_MAX_SYSTEM)] | None = None
    timeout: Annotated[int, Field(ge=0, le=_LONGEST_MS // 1000)] | None = None
    thinking: Thinking | None = None
    attachments: Attachments | None = None
    to: Name | None = None
    deliver: bool | None = None
    best_effort_deliver: bool | None = None
    channel: Name | None = None
    reply_channel: Name | None = None
    lane: Name | None = None
    label: Name | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        _require(self.message, self.attachments)
        return self


class AgentWaitParams(Params):
    """Parameters of `agent.wait`."""

    run_id: Name
    timeout_ms: Milliseconds = _WAIT_MS


class ChatSendParams(Params):
    """Parameters of `chat.send`; with `sessionId` it goes to no other conversation than shown."""

    session_key: Name
    message: Annotated[str, Field(max_length=MAX_TEXT)]
    idempotency_key: IdempotencyKey
    agent_id: Name | None = None
    session_id: Name | None = None
    timeout_ms: Milliseconds | None = None
    queue_mode: Literal["steer", "followup"] | None = None
    thinking: Thinking | None = None
    deliver: bool | None = None
    attachments: Attachments | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        _require(self.message, self.attachments)
        return self


class ChatAbortParams(Params):
    """Parameters of `chat.abort`."""

    session_key: Name
    run_id: Name | None = None
    agent_id: Name | None = None


def agent(call: Call, params: AgentParams) -> Coroutine[Any, Any, Json]:
    """Start a run; answer once when it is accepted and once more when it ended."""
    request = RunRequest(
        run_id=RunId(params.idempotency_key),
        key=session_key(call, params.session_key, params.agent_id),
        text=params.message,
        timeout=None if params.timeout is None else float(params.timeout),
        extra_system_prompt=params.extra_system_prompt or "",
        thinking=params.thinking,
        images=attachments.images(params.attachments),
        origin=Origin.OWNER,
    )
    if params.session_id is None or params.session_key is not None:
        return _agent(call, request)
    return _agent_by_id(call, request, params.session_id, params.agent_id)


async def _agent_by_id(call: Call, request: RunRequest, session_id: str, agent: str | None) -> Json:
    """Run in the session with that id; an id that a client made up names one of its own."""
    found = await call.context.store.read(lambda reader: sessions.get(reader, session_id))
    key = session_key(call, found.key if found else f"explicit:{session_id}", agent)
    return await _agent(call, replace(request, key=key))


async def _submit(call: Call, request: RunRequest) -> Admission:
    """Hand the request on, with what waits to be told to the session's next run."""
    await attachments.check_seen(call, request)
    context, key = call.context, request.key
    waiting = () if context.dispatcher.active(key) else context.notices.waiting(key)
    if waiting:
        told = "\n".join(["Since the last message:", *map(_line, waiting)])
        whole = f"{request.extra_system_prompt}\n\n{told}".strip()
        request = replace(request, extra_system_prompt=whole)
    admission = await context.dispatcher.submit(request)
    if admission.status is AdmissionStatus.ACCEPTED:
        context.notices.told(key, waiting)
    return admission


def _line(notice: tuple[int, str]) -> str:
    at, text = notice
    return f"[{datetime.fromtimestamp(at // 1000, UTC):%F %R} UTC] {text}"


async def _agent(call: Call, request: RunRequest) -> Json:
    run_id, agent = request.run_id, request.key.agent
    admission = await _submit(call, request)
    if admission.status is AdmissionStatus.IN_FLIGHT:
        told = call.dress.in_flight(run_id, admission.key, agent)
        if told is not None:
            return told
    result = admission.result
    if admission.status is not AdmissionStatus.FINISHED:
        call.respond(call.dress.accepted(run_id, admission.key, agent, admission.accepted_at))
        result = await call.context.dispatcher.wait(run_id, None)
    if result is None:
        raise RefusedError(ErrorCode.UNAVAILABLE, "the gateway stopped", retryable=True)
    return _final(result)


def _final(result: RunResult) -> Json:
    payload = replies.final(result)
    if replies.failed(result):
        raise RefusedError.of(replies.error(result), payload)
    return payload


async def agent_wait(call: Call, params: AgentWaitParams) -> Json:
    """Wait until a run ended. When that takes too long only the wait ends, not the run."""
    result = await call.context.dispatcher.wait(RunId(params.run_id), params.timeout_ms / 1000)
    if result is None:
        return {"runId": params.run_id, "status": "timeout"}
    return replies.waited(result)


def chat_send(call: Call, params: ChatSendParams) -> Coroutine[Any, Any, Json]:
    """Start a run and answer when it is accepted; the rest comes as events."""
    request = RunRequest(
        run_id=RunId(params.idempotency_key),
        key=session_key(call, params.session_key, params.agent_id),
        text=params.message,
        timeout=None if params.timeout_ms is None else params.timeout_ms / 1000,
        queue_mode=params.queue_mode and QueueMode(params.queue_mode),
        thinking=params.thinking,
        images=attachments.images(params.attachments),
        origin=Origin.OWNER,
        expected=_expected(params),
    )
    return _chat_send(call, request)


def _expected(params: ChatSendParams) -> Expected | None:
    if params.session_id is None:
        return None
    return Expected(params.session_id)


async def _chat_send(call: Call, request: RunRequest) -> Json:
    admission = await _submit(call, request)
    return {"runId": request.run_id, "status": _standing(admission)}


def _standing(admission: Admission) -> str:
    if admission.status is AdmissionStatus.ACCEPTED:
        return "started"
    if admission.status is AdmissionStatus.IN_FLIGHT:
        return "in_flight"
    result = admission.result
    return "error" if result is not None and replies.failed(result) else "ok"


def chat_abort(call: Call, params: ChatAbortParams) -> Json:
    """Stop a run, or all runs of a session; waiting ones too."""
    key = session_key(call, params.session_key, params.agent_id)
    run_id = RunId(params.run_id) if params.run_id else None
    tell_command(call.context.hooks, CommandCall("stop", "", key, WEBCHAT, is_owner=True))
    stopped = call.context.dispatcher.abort(key, run_id, "rpc")
    return {"ok": True, "aborted": bool(stopped), "runIds": stopped}


METHODS: Final = (
    Method("agent", AgentParams, agent, waits=True),
    Method("agent.wait", AgentWaitParams, agent_wait, waits=True),
    Method("chat.send", ChatSendParams, chat_send),
    Method("chat.abort", ChatAbortParams, chat_abort),
)
