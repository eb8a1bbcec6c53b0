"""Methods that send an agent system events: `wake` and `system-event`."""

from typing import Annotated, ClassVar, Final, Literal
from uuid import uuid4

from pydantic import ConfigDict, Field

from skerry.gateway.frames import Json
from skerry.gateway.idempotency import once
from skerry.gateway.method import Call, Message, Method, Name, OnceParams
from skerry.gateway.presence import PresenceUpdate
from skerry.model.ids import RunId
from skerry.model.origin import Origin
from skerry.model.run import RunRequest

_PRESENCE: Final = "Node:"
"""Prefix of a text that only concerns presence."""

Names = Annotated[list[Name], Field(max_length=64)]


class WakeParams(OnceParams):
    """Parameters of `wake`; other properties are ignored, as the protocol requires."""

    model_config = ConfigDict(extra="ignore")

    mode: Literal["now", "next-heartbeat"]
    text: Message
    session_key: Name | None = None
    agent_id: Name | None = None


class SystemEventParams(OnceParams):
    """Parameters of `system-event`: a text, and a description of the sender."""

    ignored: ClassVar = dict.fromkeys(
        (
            *("host", "ip", "mode", "version", "platform", "deviceFamily", "modelIdentifier"),
            *("deviceId", "instanceId", "roles", "scopes"),
        ),
        "A client describes itself when it connects.",
    )

    text: Message
    session_key: Name | None = None
    reason: Name | None = None
    last_input_seconds: Annotated[int, Field(ge=0)] | None = None
    tags: Names | None = None


async def wake(call: Call, params: WakeParams) -> Json:
    """Sends an agent a text: `now` starts a run, else the session's next run receives it.

    The agent's next heartbeat is also such a run.
    """
    key = call.session_key(params.session_key, params.agent_id)
    if params.mode == "next-heartbeat":
        call.context.system_events.add(key, params.text)
        return {"ok": True}
    run_id = RunId(str(uuid4()))
    request = RunRequest(run_id, key, params.text, origin=Origin.OWNER, scopes=call.scopes)
    await call.context.dispatcher.submit(request)
    return {"ok": True, "runId": run_id}


def system_event(call: Call, params: SystemEventParams) -> Json:
    """Updates the sender's presence entry, and queues the text for the session's next run.

    A sender describes only its own connection: addresses, roles and scopes are unchanged.
    """
    update = PresenceUpdate(
        params.text, params.reason, params.last_input_seconds, tuple(params.tags or ())
    )
    call.context.presence.update(call.connection_id, update)
    if not params.text.startswith(_PRESENCE):
        call.context.system_events.add(call.session_key(params.session_key, None), params.text)
    return {"ok": True}


METHODS: Final = (
    Method("wake", WakeParams, once("wake", wake, first=True)),
    Method("system-event", SystemEventParams, once("system-event", system_event, first=True)),
)
