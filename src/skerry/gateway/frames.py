"""Frames of the wire: requests, responses and events, each one JSON text.

A request is decoded into its struct at once, with raw parameters for the model of its method. Only
when that fails is the text parsed again, to find the fault and the id of the client.
"""

import json
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

PROTOCOLS: Final = (4, 3)
"""Supported versions of the protocol, the preferred one first."""
PROTOCOL: Final = PROTOCOLS[0]
MAX_BEFORE_CONNECT: Final = 64 * 1024
"""Limit of a frame before `connect` succeeded, in bytes."""
MAX_PAYLOAD: Final = 26_214_400
"""Limit of a frame after it, in bytes."""
MAX_BUFFERED: Final = 52_428_800
"""Limit of unread bytes of one client, above which it is disconnected."""

Json = Any
"""Values that `msgspec.json.encode` accepts: dictionaries, lists, structs, `Raw`, plain values."""


class ErrorCode(StrEnum):
    """All values of `error.code`; the gateway's own codes are in `details.code`."""

    INVALID_REQUEST = "INVALID_REQUEST"
    UNAVAILABLE = "UNAVAILABLE"
    NOT_PAIRED = "NOT_PAIRED"
    FORBIDDEN = "FORBIDDEN"


class RequestFrame(
    Struct,
    frozen=True,
    gc=False,
    tag="req",
    tag_field="type",
    rename="camel",
    forbid_unknown_fields=True,
):
    """A request; `params` is raw JSON, empty for none."""

    id: Annotated[str, Meta(min_length=1, max_length=512)]
    method: Annotated[str, Meta(min_length=1, max_length=128)]
    params: Raw = Raw()
    traceparent: Annotated[str, Meta(max_length=128)] | None = None
    expected_profile_id: Annotated[str, Meta(max_length=512)] | None = None


class Malformed(Struct, frozen=True):
    """JSON that is no request: the id for the response, and the fault."""

    id: Json
    problem: str


class ErrorShape(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The `error` of a response."""

    code: ErrorCode
    message: str
    details: Json = None
    retryable: bool | None = None
    retry_after_ms: int | None = None


class ResponseFrame(Struct, frozen=True, tag="res", tag_field="type", omit_defaults=True):
    """A response. A request that fails after it was accepted has both payload and error."""

    id: Json
    ok: bool
    payload: Json = None
    error: ErrorShape | None = None


class StateVersion(Struct, frozen=True):
    """Counters that increase with each change of presence or health."""

    presence: int
    health: int


class EventFrame(Struct, frozen=True, tag="event", tag_field="type", omit_defaults=True):
    """An event without its number, which each connection adds."""

    event: str
    payload: Json
    state_version: StateVersion | None = msgspec.field(default=None, name="stateVersion")


_requests: Final = msgspec.json.Decoder(RequestFrame)
_encode: Final = msgspec.json.Encoder().encode

_KEYS: Final = frozenset({"type", "id", "method", "params", "traceparent", "expectedProfileId"})
_NO_ID: Final = "invalid"
TOO_DEEP: Final = Malformed(_NO_ID, "must NOT be nested this deep")
"""Result for a text that is nested too deep to check."""


def parse(text: str) -> RequestFrame | Malformed | None:
    """Returns the request, its fault, or None for a text that is no JSON.

    A text that is nested too deep or has an infinite number gets a response, since its sender
    waits. Half a surrogate pair, which a browser sends for a cut emoji, reads as `?`.
    """
    try:
        return _requests.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return _look_closer(text)


def _look_closer(text: str) -> RequestFrame | Malformed | None:
    loaded: Json = None
    try:
        # Unlike msgspec, the standard library takes a half pair; no encoding does.
        loaded = json.loads(text)
        encoded = json.dumps(loaded, ensure_ascii=False).encode(errors="replace")
        value = msgspec.json.decode(encoded)
    except RecursionError:
        return TOO_DEEP
    except msgspec.MsgspecError:  # it has `NaN` or `Infinity`, as Python writes them
        name = loaded.get("id") if isinstance(loaded, dict) else None
        request_id = name.encode(errors="replace").decode() if isinstance(name, str) else _NO_ID
        return Malformed(request_id, "has a number that JSON cannot hold")
    except ValueError:
        return None
    if not isinstance(value, dict):
        return Malformed(_NO_ID, "must be object")
    try:
        return _requests.decode(encoded)
    except msgspec.ValidationError:
        return Malformed(value.get("id", _NO_ID), "; ".join(_problems(value)))


def _problems(frame: dict[str, Json]) -> list[str]:
    problems = [
        f"must have required property '{key}'"
        for key in ("type", "id", "method")
        if key not in frame
    ]
    problems += [f"at root: unexpected property '{key[:64]}'" for key in frame if key not in _KEYS]
    if frame.get("type", "req") != "req":
        problems.append("at /type: must be equal to constant")
    for key, longest in (("id", 512), ("method", 128), ("traceparent", 128)):
        problems += _text_problems(key, frame.get(key), longest)
    return problems or ["validation error"]


def _text_problems(key: str, value: Json, longest: int) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, str):
        return [f"at /{key}: must be string"]
    if not value:
        return [f"at /{key}: must NOT have fewer than 1 characters"]
    if len(value) > longest:
        return [f"at /{key}: must NOT have more than {longest} characters"]
    return []


def response(request_id: Json, payload: Json) -> bytes:
    """Returns the frame of a successful response."""
    return _encode(ResponseFrame(request_id, ok=True, payload=payload))


def refusal(request_id: Json, error: ErrorShape, payload: Json = None) -> bytes:
    """Returns the frame of a failed response."""
    return _encode(ResponseFrame(request_id, ok=False, payload=payload, error=error))


def event(name: str, payload: Json, version: StateVersion | None = None) -> bytes:
    """Returns the frame of an event without its end; one encoding is used for all clients."""
    return _encode(EventFrame(name, payload, version))[:-1]


def numbered(head: bytes, seq: int) -> bytes:
    """Returns the whole frame of an event with the number `seq` of a connection."""
    return b'%b,"seq":%d}' % (head, seq)


def unnumbered(head: bytes) -> bytes:
    """Returns the whole frame of an event without a number."""
    return head + b"}"


def raw(value: Json) -> Raw:
    """Returns `value` encoded, for a payload that is sent in several frames."""
    return Raw(_encode(value))
