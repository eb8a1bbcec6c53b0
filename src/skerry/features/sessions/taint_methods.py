"""Gateway methods `sessions.taint` and `sessions.taint.clear`."""

from typing import Annotated, Final

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.runtime import taint


class TaintParams(Params):
    """Parameters of `sessions.taint`."""

    key: Name
    agent_id: Name | None = None


class ClearParams(TaintParams):
    """Parameters of `sessions.taint.clear`; `through` is the value of the answer that was read."""

    through: Annotated[int, Field(ge=0)] | None = None


async def sessions_taint(call: Call, params: TaintParams) -> Json:
    """Returns the origins and sources of text from others in a conversation."""
    key = str(call.session_key(params.key, params.agent_id))
    state = await call.context.store.read(lambda reader: taint.look(reader, key))
    if state is None:
        raise _unknown_conversation(key)
    return {"key": key, **state.as_json()}


async def sessions_taint_clear(call: Call, params: ClearParams) -> Json:
    """Clears the taint of a conversation: later runs count as untainted."""
    context, key = call.context, str(call.session_key(params.key, params.agent_id))
    now, by = context.clock.now_ms(), f"device {call.device_id}" if call.device_id else "a client"
    before = await context.store.write(lambda unit: taint.clear(unit, key, now, by, params.through))
    if before is None:
        raise _unknown_conversation(key)
    context.session_events.changed([before.session_id], "taint")
    state = await context.store.read(lambda reader: taint.look(reader, key))
    return {"key": key, **(state or before).as_json()}


def _unknown_conversation(key: str) -> RefusedError:
    return RefusedError(
        f"Unknown conversation {key}.", "List the conversations: skerry sessions list"
    )


METHODS: Final = (
    Method("sessions.taint", TaintParams, sessions_taint),
    Method("sessions.taint.clear", ClearParams, sessions_taint_clear),
)
