"""The conversation of a node: its messages for an agent, and the answers that it receives.

A node's conversation has the session key `node-<device id>`. Pairing admits a device, it does not
make its words the owner's: they are those of a person whom the owner listed, unless
`gateway.nodes.owners` has the device. A node's message is never a command.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated, Any, Final
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from skerry.features.nodes.config import NodesConfig
from skerry.gateway.frames import ErrorCode
from skerry.gateway.method import Call, RefusedError
from skerry.gateway.nodes import ConnectedNode
from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import RunId, SessionKey, SessionKind
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import RunRequest

MAX_TEXT: Final = 20_000
"""Limit of a message, in characters."""
MAX_WAITING: Final = 10
"""Limit of the active and waiting runs of a node's conversation."""
LONGEST_SECONDS: Final = 3600.0
_ELSEWHERE: Final = (
    "A node writes into its own conversation; gateway.nodes.owners opens the main one to a device."
)

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Short = Annotated[str, Field(max_length=512)]


class _Payload(BaseModel):
    """Payload of an event; further keys have no effect."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, alias_generator=to_camel, defer_build=True
    )

    session_key: Short | None = None
    event_id: Short | None = None
    """Id of the event: a repetition starts no second run."""


class AgentRequestPayload(_Payload):
    """Payload of `agent.request`."""

    message: Text
    timeout_seconds: Annotated[float, Field(gt=0, le=LONGEST_SECONDS)] | None = None


class TranscriptPayload(_Payload):
    """Payload of `voice.transcript`: spoken text."""

    text: Text


async def _agent_request(call: Call, node: ConnectedNode, payload: Any) -> str:
    request = _parsed(AgentRequestPayload, payload)
    return await _start(call, node, request, request.message, request.timeout_seconds)


async def _transcript(call: Call, node: ConnectedNode, payload: Any) -> str:
    transcript = _parsed(TranscriptPayload, payload)
    return await _start(call, node, transcript, transcript.text, None)


async def _start(
    call: Call, node: ConnectedNode, payload: _Payload, text: str, seconds: float | None
) -> str:
    """Starts a run for a message; returns the reason why none is started, or an empty text."""
    context = call.context
    if not text.strip():
        return "empty_text"
    is_owner = _is_owner(call, node)
    key = _allowed_key(call, node, payload.session_key)
    if key is None:
        key = own_key(call, node)
        call.warn("/payload/sessionKey", _ELSEWHERE)
    if len(context.dispatcher.line(key)) >= MAX_WAITING:
        raise RefusedError(
            f"{MAX_WAITING} messages of the node wait for an answer",
            "Send it again later.",
            code=ErrorCode.UNAVAILABLE,
            details={"code": "BUSY"},
            retryable=True,
        )
    origin = Origin.OWNER if is_owner else Origin.KNOWN
    run_id = _run_id(node, payload.event_id)
    await context.dispatcher.submit(
        RunRequest(run_id, key, text, timeout=seconds, origin=origin, rights=Rights.NONE, scopes=())
    )
    return ""


async def _subscribe(call: Call, node: ConnectedNode, payload: Any) -> str:
    key = _allowed_key(call, node, _parsed(_Payload, payload).session_key)
    if key is None:
        return "session_not_allowed"
    call.context.broadcast.followers.add(node.client, call.protocol, str(key))
    return ""


async def _unsubscribe(call: Call, node: ConnectedNode, payload: Any) -> str:
    key = _allowed_key(call, node, _parsed(_Payload, payload).session_key)
    if key is None:
        return "session_not_allowed"
    call.context.broadcast.followers.drop(node.client, call.protocol, str(key))
    return ""


def own_key(call: Call, node: ConnectedNode) -> SessionKey:
    """Returns the session key of the node's conversation with the default agent."""
    return SessionKey.parse(f"node-{node.node_id}", call.context.config().agents.default_id)


def _allowed_key(call: Call, node: ConnectedNode, wanted: str | None) -> SessionKey | None:
    """Returns the conversation that the node names; None if it may not use it.

    Without a name it is the node's own. A device of the owner may also use those of other agents,
    and main conversations.
    """
    own = own_key(call, node)
    if not wanted:
        return own
    try:
        key = call.context.config().session_key(wanted, None)
    except InvalidSessionKeyError:
        return None
    if key == own:
        return own
    if not _is_owner(call, node) or key.agent not in call.context.config().agents.ids:
        return None
    return key if key.kind is SessionKind.MAIN or key.scope == own.scope else None


def _is_owner(call: Call, node: ConnectedNode) -> bool:
    return node.node_id in call.context.config().gateway.section(NodesConfig).owners


def _run_id(node: ConnectedNode, event_id: str | None) -> RunId:
    """Returns the id of a run; the same for the same event of the same node."""
    if not event_id:
        return RunId(str(uuid4()))
    return RunId(sha256(f"node\0{node.node_id}\0{event_id}".encode(errors="replace")).hexdigest())


def _parsed(kind: type[Any], payload: Any) -> Any:
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'payload'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise RefusedError(f"invalid payload: {faults[:500]}") from None


Handler = Callable[[Call, ConnectedNode, Any], Awaitable[str]]
HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "agent.request": _agent_request,
        "chat.subscribe": _subscribe,
        "chat.unsubscribe": _unsubscribe,
        "voice.transcript": _transcript,
    }
)
"""Functions that handle an event, by its name; each returns why it did not, or an empty text."""
