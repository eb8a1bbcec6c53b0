"""Frames of a gateway as typed values."""

from typing import Any, Final

import msgspec

from skerry.infra.untrusted_json import UNREADABLE

JSON = Any
"""A payload; its form depends on the method."""

PROTOCOL: Final = 4


class WireError(msgspec.Struct, frozen=True, rename="camel"):
    """Reason why a request was refused."""

    code: str = ""
    message: str = ""
    details: JSON = None
    retryable: bool = False
    retry_after_ms: int | None = None


class GatewayResponse(msgspec.Struct, frozen=True, tag="res", tag_field="type"):
    """The response to a request; some methods send two with one id."""

    id: str
    ok: bool
    payload: JSON = None
    error: WireError | None = None


class GatewayEvent(msgspec.Struct, frozen=True, tag="event", tag_field="type"):
    """An event. `seq` numbers the events of this connection without gaps."""

    event: str
    payload: JSON = None
    seq: int | None = None


_decoder: Final[msgspec.json.Decoder[GatewayResponse | GatewayEvent]] = msgspec.json.Decoder(
    GatewayResponse | GatewayEvent
)
_encoder: Final = msgspec.json.Encoder()


def decode(data: str | bytes) -> GatewayResponse | GatewayEvent | None:
    """Returns the frame; None for an unknown kind."""
    try:
        return _decoder.decode(data)
    except UNREADABLE:
        return None


def request(request_id: str, method: str, params: JSON) -> str:
    """Returns the text of a request frame."""
    frame: dict[str, Any] = {"type": "req", "id": request_id, "method": method}
    if params is not None:
        frame["params"] = params
    return _encoder.encode(frame).decode()
