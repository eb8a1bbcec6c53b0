"""Parameters of a frame that a method uses: the others are reported, or refused by name.

A client of the published protocol may send every property of its schema. A method declares beside
its model those that have no effect here, and those that it cannot carry out; see `Params`.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Params, RefusedError
from skerry.gateway.problems import describe
from skerry.model.ids import SessionKey, agent_id

P = TypeVar("P", bound=BaseModel)

UNSUPPORTED: Final = "request.unsupported_property"
_EMPTY: Final = b"{}"
_NOTHING: Final = frozenset({b"null", b"false", b'""', b"[]", b"{}"})
"""Values with which a property asks for nothing."""
_EXTRA: Final = "extra_forbidden"


def parameters(method: Method[P], raw: bytes) -> tuple[P, list[Json]]:
    """Returns the parameters, and a warning for each property that has no effect.

    Raises:
        RefusedError: they do not fit, or ask for what the method cannot do.
    """
    raw = _EMPTY if raw in {b"", b"null"} else raw
    try:
        return _parsed(method, raw), []
    except ValidationError as error:
        extra = _extra(error)
        if not extra & _declared(method).keys():
            raise _invalid(method, error) from None
    kept, warnings = _sorted_out(method, raw, extra)
    try:
        return _parsed(method, kept), warnings
    except ValidationError as error:
        raise _invalid(method, error) from None


def warned(payload: Json, warnings: list[Json]) -> Json:
    """Returns a payload with the warnings; one that is no object has no place for them."""
    if not warnings or not isinstance(payload, dict):
        return payload
    own = payload.get("warnings")
    return payload | {"warnings": [*(own if isinstance(own, list) else ()), *warnings]}


def _parsed(method: Method[P], raw: bytes) -> P:
    return method.params.model_validate_json(raw)


def _invalid(method: Method[Any], error: ValidationError) -> RefusedError:
    return RefusedError(
        ErrorCode.INVALID_REQUEST, f"invalid {method.name} params: {describe(error)}"
    )


def _declared(method: Method[Any]) -> Mapping[str, str]:
    params = method.params
    return {**params.ignored, **params.refused} if issubclass(params, Params) else {}


def _word(usual: str | None) -> bytes:
    return msgspec.json.encode(usual)


def _extra(error: ValidationError) -> set[str]:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return {
        str(detail["loc"][0])
        for detail in details
        if detail["type"] == _EXTRA and len(detail["loc"]) == 1
    }


def _sorted_out(method: Method[Any], raw: bytes, extra: set[str]) -> tuple[bytes, list[Json]]:
    """Returns the frame's parameters without the declared ones among `extra`, and the warnings."""
    given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    refused, ignored = method.params.refused, method.params.ignored
    warnings: list[Json] = []
    for name in [name for name in given if name in extra]:
        asks = bytes(given[name]) not in {*_NOTHING, _word(method.params.usual.get(name))}
        if name in refused and asks:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"{method.name} cannot take '{name}': {refused[name]}",
                details={
                    "code": UNSUPPORTED,
                    "property": name,
                    "remedy": f"Send it without '{name}'.",
                },
            )
        if name in ignored and asks:
            warnings.append({"path": name, "message": ignored[name]})
        if name in refused or name in ignored:
            del given[name]
    return msgspec.json.encode(given), warnings


def session_key(call: Call, text: str | None, agent: str | None) -> SessionKey:
    """Returns the key that a request names by key, by agent, or by neither: then the main one.

    Raises:
        InvalidSessionKeyError: the key does not parse.
        RefusedError: the key belongs to another agent than the one that is named too.
    """
    owner = agent_id(agent) if agent else call.context.config().agents.default_id
    key = SessionKey.parse(text or "", owner)
    if agent and key.agent != owner:
        message = f"sessionKey belongs to agent {key.agent!r}, not to {owner!r}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    return key
