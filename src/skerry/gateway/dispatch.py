"""Dispatches request frames to methods: table, scopes, parameters, errors of the wire.

A client of the published protocol may send every property of its schema. A method declares, in
addition to its model, properties without effect and unsupported ones; see `Params`. The former are
reported in the response, the latter are refused by name.
"""

import logging
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import anyio.to_thread
import msgspec
from pydantic import BaseModel, ValidationError

from skerry.gateway.context import LoadedPlugins
from skerry.gateway.frames import ErrorCode, ErrorShape, Json, RequestFrame
from skerry.gateway.method import Call, Method, Params, RefusedError, missing_scope
from skerry.gateway.methods import (
    agents,
    chat,
    commands,
    models,
    runs,
    subscriptions,
    system,
)
from skerry.gateway.problems import describe
from skerry.model.errors import BusyError, ModelError, SkerryError, StateError
from skerry.model.rights import MissingScopeError
from skerry.policy import access
from skerry.policy.access import Verb
from skerry.policy.decide import Request, decide
from skerry.sdk.features import Features, registered
from skerry.sdk.methods import GatewayMethod, MethodCall

logger = logging.getLogger(__name__)

P = TypeVar("P", bound=BaseModel)

UNKNOWN: Final = "request.unknown_method"
UNSUPPORTED: Final = "request.unsupported_property"
_EMPTY: Final = b"{}"
_NO_REQUEST: Final = frozenset({b"null", b"false", b'""', b"[]", b"{}"})
"""Values with which a property requests nothing."""
_EXTRA: Final = "extra_forbidden"


KERNEL_METHODS: Final[tuple[Method[Any], ...]] = (
    *runs.METHODS,
    *chat.METHODS,
    *subscriptions.METHODS,
    *system.METHODS,
    *agents.METHODS,
    *models.METHODS,
    *commands.METHODS,
)
"""Methods of the kernel; features and plugins add others."""


class MethodTable:
    """All methods by name."""

    def __init__(
        self,
        plugins: LoadedPlugins | None = None,
        features: Features | None = None,
    ) -> None:
        self._methods: dict[str, Method[Any]] = {}
        self._features = features or registered()
        self._needs = {**access.METHODS, **self._features.methods}
        self._is_whole = False
        self._add(*KERNEL_METHODS)
        self._plugins = plugins

    @property
    def needs(self) -> Mapping[str, access.Need]:
        """Returns the needs of all methods: of the kernel, of features, of plugins."""
        kernel_needs = {name: method.need for name, method in self._added.items()}
        return MappingProxyType({**kernel_needs, **self._needs})

    @property
    def _added(self) -> Mapping[str, GatewayMethod]:
        """Returns the present methods of plugins."""
        return self._plugins.methods if self._plugins else {}

    @property
    def names(self) -> list[str]:
        """Returns the names of all methods, sorted."""
        return sorted({*self._needs, *self._added})

    @property
    def named(self) -> list[str]:
        """Returns the names of the methods in `hello-ok`, sorted."""
        return [name for name in self.names if name not in self._features.unnamed]

    @property
    def events(self) -> list[str]:
        """Returns the names of all events."""
        added = (event.name for event in self._plugins.events) if self._plugins else ()
        return [*access.EVENTS, *self._features.events, *added]

    @property
    def methods(self) -> list[Method[Any]]:
        """Returns all methods, sorted by name."""
        return [method for name in self.names if (method := self._find(name))]

    def waits(self, name: str) -> bool:
        """Returns True for a method that answers when a run ends."""
        method = self._methods.get(name)
        return method is not None and method.waits

    def call(self, frame: RequestFrame, call: Call) -> Json | Coroutine[Any, Any, Json]:
        """Calls a method; returns its payload, or a coroutine of it.

        Raises:
            RefusedError: the method is unknown, the role or scope is missing, or the parameters are
                invalid.
            Exception: any exception of the method; `shape` converts it to a response.
        """
        _check_access(self._need(frame.method), call, frame.method)
        if self._is_of_feature(frame.method):
            return self._call_feature(frame, call)
        return self._call(frame, call)

    def _need(self, name: str) -> access.Need:
        """Returns the need of a method of the kernel, a feature or a plugin."""
        if (need := self._needs.get(name)) is not None:
            return need
        added = self._added.get(name)
        return added.need if added else access.UNLISTED

    async def _call_feature(self, frame: RequestFrame, call: Call) -> Json:
        """Calls a method of a feature; the first such call imports the methods of all features."""
        await anyio.to_thread.run_sync(self._features.load_methods)  # the loop must not wait for it
        answer = self._call(frame, call)
        return await answer if isinstance(answer, Coroutine) else answer

    def _call(self, frame: RequestFrame, call: Call) -> Json | Coroutine[Any, Any, Json]:
        method = self._find(frame.method)
        if method is None:
            raise RefusedError(
                f"unknown method: {frame.method}",
                "Ask for one of `features.methods` in `hello-ok`.",
                details={"code": UNKNOWN},
            )
        params, warnings = parameters(method, bytes(frame.params))
        call.warnings.extend(warnings)
        return method.handler(call, params)

    def _is_of_feature(self, name: str) -> bool:
        """Returns True for a method of a feature before those are imported."""
        return name not in self._methods and name in self._needs and not self._is_whole

    def _find(self, name: str) -> Method[Any] | None:
        if self._is_of_feature(name):
            self._add(*self._features.load_methods())
            self._is_whole = True
        if (method := self._methods.get(name)) is not None:
            return method
        added = self._added.get(name)
        return _of_plugin(added) if added else None

    def _add(self, *methods: Method[Any]) -> None:
        unruled = {method.name for method in methods} - self._needs.keys()
        if unruled:
            names = ", ".join(sorted(unruled))
            raise RuntimeError(f"policy/access.py and the features have no row for: {names}")
        self._methods |= {method.name: method for method in methods}


def _of_plugin(registered: GatewayMethod) -> Method[BaseModel]:
    """Returns a plugin's method as a method of the gateway."""

    def handler(call: Call, params: BaseModel) -> Coroutine[Any, Any, Json]:
        return _answer(registered, call, params)

    return Method(registered.name, registered.params, handler)


async def _answer(registered: GatewayMethod, call: Call, params: BaseModel) -> Json:
    answer: Json = await registered.run(params, MethodCall(call.scopes, call.connection_id))
    return answer


def _check_access(need: access.Need, call: Call, name: str) -> None:
    decision = decide(Request(call.actor, Verb.CALL, name, need))
    if decision.scope is not None:
        raise RefusedError.of(missing_scope(decision.scope))
    if not decision.allowed:
        raise RefusedError(decision.reason)


def parameters(method: Method[P], raw: bytes) -> tuple[P, list[Json]]:
    """Returns the parameters, and a warning for each property without effect.

    Raises:
        RefusedError: the parameters are invalid, or request an unsupported property.
    """
    raw = _EMPTY if raw in {b"", b"null"} else raw
    try:
        return _parsed(method, raw), []
    except ValidationError as error:
        extra = _extra(error)
        if not extra & _declared(method).keys():
            raise _invalid(method, error) from None
    supported, warnings = _without_declared(method, raw, extra)
    try:
        return _parsed(method, supported), warnings
    except ValidationError as error:
        raise _invalid(method, error) from None


def with_warnings(payload: Json, warnings: list[Json]) -> Json:
    """Returns the payload with the warnings added, when it is an object."""
    if not warnings or not isinstance(payload, dict):
        return payload
    listed = payload.get("warnings")
    return payload | {"warnings": [*(listed if isinstance(listed, list) else ()), *warnings]}


def _parsed(method: Method[P], raw: bytes) -> P:
    return method.params.model_validate_json(raw)


def _invalid(method: Method[Any], error: ValidationError) -> RefusedError:
    return RefusedError(f"invalid {method.name} params: {describe(error)}")


def _declared(method: Method[Any]) -> Mapping[str, str]:
    params = method.params
    return {**params.ignored, **params.refused} if issubclass(params, Params) else {}


def _extra(error: ValidationError) -> set[str]:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return {
        str(detail["loc"][0])
        for detail in details
        if detail["type"] == _EXTRA and len(detail["loc"]) == 1
    }


def _without_declared(method: Method[Any], raw: bytes, extra: set[str]) -> tuple[bytes, list[Json]]:
    """Returns the parameters without the declared ones among `extra`, and the warnings."""
    properties = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    refused, ignored = method.params.refused, method.params.ignored
    warnings: list[Json] = []
    for name in [name for name in properties if name in extra]:
        has_effect = bytes(properties[name]) not in {
            *_NO_REQUEST,
            msgspec.json.encode(method.params.usual.get(name)),
        }
        if name in refused and has_effect:
            raise RefusedError(
                f"{method.name} cannot take '{name}': {refused[name]}",
                f"Send it without '{name}'.",
                details={"code": UNSUPPORTED, "property": name},
            )
        if name in ignored and has_effect:
            warnings.append({"path": name, "message": ignored[name]})
        if name in refused or name in ignored:
            del properties[name]
    return msgspec.json.encode(properties), warnings


def shape(error: Exception, method: str) -> tuple[ErrorShape, Json]:
    """Returns the error and the payload of the response to a request whose method raised."""
    match error:
        case RefusedError():
            return error.shape, error.payload
        case MissingScopeError():
            return missing_scope(error.scope, error.remedy), None
        case BusyError() | StateError():
            return _shape_of(error, ErrorCode.UNAVAILABLE, retryable=True), None
        case ModelError():
            return _shape_of(error, ErrorCode.UNAVAILABLE, retryable=error.retryable), None
        case SkerryError():
            return _shape_of(error, ErrorCode.INVALID_REQUEST), None
    logger.error("method %s failed", method, exc_info=error)
    return ErrorShape(ErrorCode.UNAVAILABLE, "internal error", {"code": "internal"}), None


def _shape_of(error: SkerryError, code: ErrorCode, *, retryable: bool | None = None) -> ErrorShape:
    details = {"code": error.code}
    if error.remedy:
        details["remedy"] = error.remedy
    return ErrorShape(code, str(error), details, retryable)
