"""Methods that start, await and stop runs: `agent`, `agent.wait`, `chat.send`, `chat.abort`."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from msgspec.structs import replace
from pydantic import BeforeValidator, Field, model_validator

from skerry.commands.table import CommandCall, tell_command
from skerry.gateway import attachments
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import (
    MAX_TEXT,
    Call,
    EntryId,
    IdempotencyKey,
    Message,
    Method,
    Name,
    Params,
    RefusedError,
)
from skerry.gateway.methods import overrides
from skerry.gateway.methods.labels import Label, check_free
from skerry.gateway.protocol_versions import final_response, has_failed, run_error, wait_response
from skerry.hooks.events import WEBCHAT
from skerry.model.ids import RunId, SessionKey
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.rights import Rights
from skerry.model.run import (
    RESERVED_IDS,
    Admission,
    AdmissionStatus,
    ExpectedState,
    ReservedIdError,
    RunRequest,
)
from skerry.model.session import entry_seq
from skerry.model.thinking import ThinkingLevel, thinking_level
from skerry.store import sessions

_WAIT_MS: Final = 30_000
_MAX_WAIT_MS: Final = 2_147_000_000
_MAX_SYSTEM_PROMPT: Final = 65_536


def _level(value: object) -> object:
    return thinking_level(value) if isinstance(value, str) else value


def _check_not_empty(message: str, images: list[Any] | None) -> None:
    """Refuses a message without text and images: a model would be paid to answer nothing."""
    if not message.strip() and not images:
        problem = "message is empty"
        raise ValueError(problem)


Milliseconds = Annotated[int, Field(ge=0, le=_MAX_WAIT_MS)]
Attachment = Annotated[dict[str, Any], Field(max_length=32)]
Attachments = Annotated[list[Attachment], Field(max_length=attachments.MAX_COUNT)]
Thinking = Annotated[ThinkingLevel, BeforeValidator(_level)]


_NO_CHANNEL: Final = "The answer is sent to the clients of the gateway, and to no channel."
_NO_MESSAGE_TOOL: Final = "The tool policy of the configuration decides on the tool `message`."
_INTERNAL: Final = "it is for OpenClaw's own processes."
_PROVENANCE: Final = "the origin of a message is that of its connection."
_STORED: Final = "every message is stored in its transcript."


class AgentRunParams(Params):
    """Parameters of `agent`; `model`, with or without `provider`, is for this run only.

    `label` names the conversation that the run enters, as `sessions.patch` does.
    """

    ignored: ClassVar = {
        **dict.fromkeys(
            (
                *("to", "replyTo", "deliver", "bestEffortDeliver", "channel", "replyChannel"),
                *("accountId", "replyAccountId", "threadId", "groupId", "groupChannel"),
                "groupSpace",
            ),
            _NO_CHANNEL,
        ),
        **dict.fromkeys(("disableMessageTool", "sourceReplyDeliveryMode"), _NO_MESSAGE_TOOL),
        **dict.fromkeys(
            ("promptMode", "bootstrapContextMode", "bootstrapContextRunKind"),
            "A run always has the complete system prompt of its agent.",
        ),
        **dict.fromkeys(
            ("forceRestartSafeTools", "forceCodeModeTools", "cleanupBundleMcpOnRunEnd"),
            "Every run has the tools of the configuration.",
        ),
        "lane": "Runs of one conversation follow each other; lanes cannot be chosen.",
        "voiceWakeTrigger": "This gateway has no voice wake-up.",
        "spawnedBy": "A request cannot make its conversation the child of another.",
    }
    refused: ClassVar = {
        **dict.fromkeys(
            (
                *("acpTurnSource", "internalRuntimeHandoffId", "internalEvents"),
                *("internalExecutionIdentityRetry", "internalExecutionIdentityRecoveryAttempt"),
                "execApprovalFollowupExpectedSessionId",
            ),
            _INTERNAL,
        ),
        **dict.fromkeys(("suppressPromptPersistence", "sessionEffects"), _STORED),
        **dict.fromkeys(
            ("swarmCollector", "swarmOutputSchema"),
            "answers are text; a schema cannot be required.",
        ),
        "cwd": "a run works in its agent's workspace.",
        "modelRun": "a run belongs to an agent; a model cannot run without one.",
        "inputProvenance": _PROVENANCE,
    }
    usual: ClassVar = {
        "promptMode": "full",
        "bootstrapContextMode": "full",
        "bootstrapContextRunKind": "default",
        "sourceReplyDeliveryMode": "automatic",
        "sessionEffects": "visible",
    }

    message: Message
    idempotency_key: IdempotencyKey
    session_key: Name | None = None
    session_id: Name | None = None
    agent_id: Name | None = None
    extra_system_prompt: Annotated[str, Field(max_length=_MAX_SYSTEM_PROMPT)] | None = None
    timeout: Annotated[int, Field(ge=0, le=_MAX_WAIT_MS // 1000)] | None = None
    thinking: Thinking | None = None
    attachments: Attachments | None = None
    model: Name | None = None
    provider: Name | None = None
    expected_existing_session_id: Name | None = None
    label: Label | None = None

    @model_validator(mode="after")
    def _check_message(self) -> Self:
        _check_not_empty(self.message, self.attachments)
        return self


class AgentWaitParams(Params):
    """Parameters of `agent.wait`."""

    run_id: Name
    timeout_ms: Milliseconds = _WAIT_MS


class ChatSendParams(Params):
    """Parameters of `chat.send`; `sessionId` refuses the message if another session is current."""

    ignored: ClassVar = {
        **dict.fromkeys(
            (
                *("deliver", "originatingChannel", "originatingTo", "originatingAccountId"),
                "originatingThreadId",
            ),
            _NO_CHANNEL,
        ),
        **dict.fromkeys(("fastMode", "fastAutoOnSeconds"), "Models are called at a single speed."),
        "replyToId": "The model does not receive the message to which this one replies.",
        "mentions": "The conversation has no other people who could be mentioned.",
        "workContext": "The model does not receive what the page shows.",
    }
    refused: ClassVar = {
        **dict.fromkeys(("systemInputProvenance", "systemProvenanceReceipt"), _PROVENANCE),
        **dict.fromkeys(
            ("expectedSessionRoutingContract", "expectedPermissionMode", "expectedToolOverrides"),
            "a conversation has no such setting to compare with.",
        ),
        "toolBindings": "every message has the tools of the configuration.",
        "intent": "this gateway has no goals.",
    }

    session_key: Name
    message: Annotated[str, Field(max_length=MAX_TEXT)]
    idempotency_key: IdempotencyKey
    agent_id: Name | None = None
    session_id: Name | None = None
    timeout_ms: Milliseconds | None = None
    queue_mode: Literal["steer", "followup", "collect", "interrupt"] | None = None
    thinking: Thinking | None = None
    expected_leaf_entry_id: EntryId | None = None
    suppress_command_interpretation: bool = False
    attachments: Attachments | None = None

    @model_validator(mode="after")
    def _check_message(self) -> Self:
        _check_not_empty(self.message, self.attachments)
        return self


class ChatAbortParams(Params):
    """Parameters of `chat.abort`."""

    ignored: ClassVar = {"preserveSideRuns": "A conversation has no other runs than the one shown."}

    session_key: Name
    run_id: Name | None = None
    agent_id: Name | None = None


def _key(call: Call, params: AgentRunParams | ChatSendParams | ChatAbortParams) -> SessionKey:
    return call.context.config().session_key(params.session_key, params.agent_id)


def _run_id(key: str) -> RunId:
    if key.startswith(RESERVED_IDS):
        raise ReservedIdError(key)
    return RunId(key)


def agent(call: Call, params: AgentRunParams) -> Coroutine[Any, Any, Json]:
    """Starts a run; answers when the run is accepted, and again when it has ended."""
    request = RunRequest(
        run_id=_run_id(params.idempotency_key),
        key=_key(call, params),
        text=params.message,
        timeout=None if params.timeout is None else float(params.timeout),
        extra_system_prompt=params.extra_system_prompt or "",
        thinking=params.thinking,
        images=attachments.images(params.attachments) if params.attachments else (),
        origin=Origin.OWNER,
        expected=_expected_session(params),
        label=(params.label or "").strip(),
        scopes=call.scopes,
    )
    if params.model is not None or params.provider is not None:
        overrides.need_admin(call)
        return _run_with_model(call, request, params)
    return _run_in_session(call, request, params)


async def _run_with_model(call: Call, request: RunRequest, params: AgentRunParams) -> Json:
    if params.model is None:
        raise RefusedError(
            f"provider {params.provider!r} is named without a model",
            "Name the model too, as `model`.",
        )
    named = (params.provider, params.model)
    ref = await overrides.known_model(call, "/".join(part for part in named if part))
    return await _run_in_session(call, replace(request, model=ref), params)


def _run_in_session(
    call: Call, request: RunRequest, params: AgentRunParams
) -> Coroutine[Any, Any, Json]:
    if params.session_id is None or params.session_key is not None:
        return _run(call, request)
    return _run_by_session_id(call, request, params.session_id, params.agent_id)


async def _run_by_session_id(
    call: Call, request: RunRequest, session_id: str, agent: str | None
) -> Json:
    """Runs in the session with that id; for an unknown id a new session is made."""
    session = await call.context.store.read(lambda reader: sessions.get(reader, session_id))
    key = call.session_key(session.key if session else f"explicit:{session_id}", agent)
    return await _run(call, replace(request, key=key))


async def _submit(call: Call, request: RunRequest) -> Admission:
    """Submits the request, with the system events that are queued for the session's next run."""
    if request.images:
        await attachments.check_model(call.context, request.key.agent)
    context, key = call.context, request.key
    events = context.system_events.queued.get(key, ())
    if not events or context.dispatcher.active(key):
        return await context.dispatcher.submit(request)
    text = "\n".join(["Since the last message:", *map(_event_line, events)])
    prompt = f"{request.extra_system_prompt}\n\n{text}".strip()
    admission = await context.dispatcher.submit(replace(request, extra_system_prompt=prompt))
    if admission.status is AdmissionStatus.ACCEPTED:
        context.system_events.delivered(key, events)
    return admission


def _event_line(event: tuple[int, str]) -> str:
    at, text = event
    return f"[{datetime.fromtimestamp(at // 1000, UTC):%F %R} UTC] {text}"


async def _run(call: Call, request: RunRequest) -> Json:
    run_id, agent, key = request.run_id, request.key.agent, str(request.key)
    if request.label:
        await call.context.store.read(lambda reader: check_free(reader, agent, request.label, key))
    admission = await _submit(call, request)
    if admission.status is AdmissionStatus.IN_FLIGHT:
        response = call.version.in_flight(run_id, admission.key, agent)
        if response is not None:
            return response
    result = admission.result
    if admission.status is not AdmissionStatus.FINISHED:
        call.respond(call.version.accepted(run_id, admission.key, agent, admission.accepted_at))
        result = await call.context.dispatcher.wait(run_id, None)
    if result is None:
        raise RefusedError("the gateway stopped", code=ErrorCode.UNAVAILABLE, retryable=True)
    payload = final_response(result)
    if has_failed(result):
        raise RefusedError.of(run_error(result), payload)
    return payload


async def agent_wait(call: Call, params: AgentWaitParams) -> Json:
    """Waits until a run has ended, or until the timeout, which does not stop the run."""
    result = await call.context.dispatcher.wait(RunId(params.run_id), params.timeout_ms / 1000)
    if result is None:
        return {"runId": params.run_id, "status": "timeout"}
    return wait_response(result)


def chat_send(call: Call, params: ChatSendParams) -> Coroutine[Any, Any, Json]:
    """Starts a run and answers when it is accepted; its output is sent as events."""
    request = RunRequest(
        run_id=_run_id(params.idempotency_key),
        key=_key(call, params),
        text=params.message,
        timeout=None if params.timeout_ms is None else params.timeout_ms / 1000,
        queue_mode=params.queue_mode and QueueMode(params.queue_mode),
        thinking=params.thinking,
        images=attachments.images(params.attachments) if params.attachments else (),
        origin=Origin.OWNER,
        rights=Rights.NONE if params.suppress_command_interpretation else None,
        expected=_expected_state(params),
        scopes=call.scopes,
    )
    return _chat_send(call, request)


def _expected_state(params: ChatSendParams) -> ExpectedState | None:
    leaf: int | None = None
    if "expected_leaf_entry_id" in params.model_fields_set:  # null expects an empty transcript
        leaf = entry_seq(params.expected_leaf_entry_id) if params.expected_leaf_entry_id else 0
    if params.session_id is None and leaf is None:
        return None
    return ExpectedState(params.session_id or "", leaf=leaf)


def _expected_session(params: AgentRunParams) -> ExpectedState | None:
    session_id = params.expected_existing_session_id
    return ExpectedState(session_id, present=True) if session_id else None


async def _chat_send(call: Call, request: RunRequest) -> Json:
    admission = await _submit(call, request)
    return {"runId": request.run_id, "status": _status(admission)}


def _status(admission: Admission) -> str:
    if admission.status is AdmissionStatus.ACCEPTED:
        return "started"
    if admission.status is AdmissionStatus.IN_FLIGHT:
        return "in_flight"
    result = admission.result
    return "error" if result is not None and has_failed(result) else "ok"


def chat_abort(call: Call, params: ChatAbortParams) -> Json:
    """Stops one run or all runs of a session, including waiting runs."""
    key = _key(call, params)
    run_id = RunId(params.run_id) if params.run_id else None
    tell_command(call.context.hooks, CommandCall("stop", "", key, WEBCHAT, is_owner=True))
    stopped = call.context.dispatcher.abort(key, run_id, "rpc")
    return {"ok": True, "aborted": bool(stopped), "runIds": stopped}


METHODS: Final = (
    Method("agent", AgentRunParams, agent, waits=True),
    Method("agent.wait", AgentWaitParams, agent_wait, waits=True),
    Method("chat.send", ChatSendParams, chat_send),
    Method("chat.abort", ChatAbortParams, chat_abort),
)
