"""Methods by which the system tells an agent something: `wake` and `system-event`."""

from typing import Annotated, ClassVar, Final, Literal
from uuid import uuid4

from pydantic import ConfigDict, Field

from skerry.gateway.frames import Json
from skerry.gateway.given import session_key
from skerry.gateway.idempotency import once
from skerry.gateway.method import Call, Message, Method, Name, OnceParams
from skerry.gateway.presence import Told
from skerry.model.ids import RunId
from skerry.model.origin import Origin
from skerry.model.run import RunRequest

_PRESENCE: Final = "Node:"
"""Prefix of a text that is about presence alone."""

Names = Annotated[list[Name], Field(max_length=64)]


class WakeParams(OnceParams):
    """Parameters of `wake`; what else a client adds is passed over, as the protocol says."""

    model_config = ConfigDict(extra="ignore")

    mode: Literal["now", "next-heartbeat"]
    text: Message
    session_key: Name | None = None
    agent_id: Name | None = None


class SystemEventParams(OnceParams):
    """Parameters of `system-event`: a text, and what the sender says of itself."""

    ignored: ClassVar = dict.fromkeys(
        (
            *("host", "ip", "mode", "version", "platform", "deviceFamily", "modelIdentifier"),
            *("deviceId", "instanceId", "roles", "scopes"),
        ),
        "What a client is, it said when it connected.",
    )

    text: Message
    session_key: Name | None = None
    reason: Name | None = None
    last_input_seconds: Annotated[int, Field(ge=0)] | None = None
    tags: Names | None = None


async def wake(call: Call, params: WakeParams) -> Json:
    """Tells an agent something: `now` starts a run, else its session's next run is told.

    Nothing here starts a run of itself, so `next-heartbeat` waits for a message.
    """
    key = session_key(call, params.session_key, params.agent_id)
    if params.mode == "next-heartbeat":
        call.context.notices.add(key, params.text)
        return {"ok": True}
    run_id = RunId(str(uuid4()))
    request = RunRequest(run_id, key, params.text, origin=Origin.OWNER, scopes=call.scopes)
    await call.context.dispatcher.submit(request)
    return {"ok": True, "runId": run_id}


def system_event(call: Call, params: SystemEventParams) -> Json:
    """Shows others what the sender says of itself, and tells the next run of the session.

    A sender tells only of its own connection: addresses, roles and scopes are what they are.
    """
    told = Told(params.text, params.reason, params.last_input_seconds, tuple(params.tags or ()))
    call.context.presence.tell(call.connection_id, told)
    if not params.text.startswith(_PRESENCE):
        call.context.notices.add(session_key(call, params.session_key, None), params.text)
    return {"ok": True}


METHODS: Final = (
    Method("wake", WakeParams, once("wake", wake, first=True)),
    Method("system-event", SystemEventParams, once("system-event", system_event, first=True)),
)
