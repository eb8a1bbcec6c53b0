"""Methods for the outbox: list the undelivered parts, send or drop them."""

from typing import Annotated, Final

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Params, RefusedError
from skerry.model.inbound import ReplyTo
from skerry.store import outbox
from skerry.store.outbox import OutboxRow, PartState

_SHORT: Final = 120

Serial = Annotated[int, Field(ge=1, le=1 << 62)]


class ListParams(Params):
    """Parameters of `outbox.list`: without states, all parts that are neither sent nor dropped."""

    states: Annotated[tuple[Annotated[str, Field(max_length=16)], ...], Field(max_length=8)] = ()
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class PartParams(Params):
    """Parameters of a method for one part."""

    serial: Serial


async def outbox_list(call: Call, params: ListParams) -> Json:
    """Returns the parts, oldest first, each with the beginning of its text."""
    values = {state.value for state in PartState}
    if not values.issuperset(params.states):
        message = f"unknown state; states: {', '.join(sorted(values))}"
        raise RefusedError(message)
    states = [PartState(state) for state in params.states]
    parts = await call.context.store.read(
        lambda reader: outbox.undelivered(reader, states, params.limit)
    )
    return {"parts": [_row(part, short=True) for part in parts]}


async def outbox_get(call: Call, params: PartParams) -> Json:
    """Returns one part with its whole text."""
    stored = await call.context.store.read(lambda reader: outbox.get(reader, params.serial))
    if stored is None:
        message = f"The outbox has no part {params.serial}."
        details: dict[str, Json] = {"remedy": "List the numbers: skerry outbox list"}
        raise RefusedError(message, details=details)
    return {"part": _row(stored, short=False)}


async def outbox_retry(call: Call, params: PartParams) -> Json:
    """Sends a waiting or failed part now."""
    now = call.context.clock.now_ms()
    stored = await call.context.store.write(lambda unit: outbox.retry(unit, params.serial, now))
    call.context.hurry(stored.waiting.part.to)
    return {"ok": True, "serial": params.serial}


async def outbox_drop(call: Call, params: PartParams) -> Json:
    """Drops a waiting or failed part."""
    now = call.context.clock.now_ms()
    stored = await call.context.store.write(lambda unit: outbox.drop(unit, params.serial, now))
    call.context.hurry(stored.waiting.part.to)
    return {"ok": True, "serial": params.serial}


def _row(stored: OutboxRow, *, short: bool) -> dict[str, Json]:
    waiting, part = stored.waiting, stored.waiting.part
    text = " ".join(part.text.split())[:_SHORT] if short else part.text
    if part.additions.media is not None:
        text = f"📎 {part.additions.media.name} {text}".rstrip()
    return {
        "serial": part.serial,
        "state": waiting.state,
        "to": _to(part.to),
        "runId": part.run_id,
        "attempts": waiting.attempts,
        "error": stored.error or None,
        "retryAtMs": waiting.retry_at or None,
        "repeated": waiting.repeated,
        "createdAtMs": stored.created_at,
        "updatedAtMs": stored.updated_at,
        "text": text,
    }


def _to(to: ReplyTo) -> Json:
    return {"channel": to.channel, "account": to.account, "peer": to.peer.id}


METHODS: Final = (
    Method("outbox.list", ListParams, outbox_list),
    Method("outbox.get", PartParams, outbox_get),
    Method("outbox.retry", PartParams, outbox_retry),
    Method("outbox.drop", PartParams, outbox_drop),
)
