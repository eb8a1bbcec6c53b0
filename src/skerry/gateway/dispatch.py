"""Dispatch of a request frame to its method: table, scopes, parameters, errors for the wire."""

import logging
from collections.abc import Coroutine, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import anyio.to_thread

from skerry.gateway import given
from skerry.gateway.frames import ErrorCode, ErrorShape, Json, RequestFrame
from skerry.gateway.method import Call, Method, RefusedError, missing_scope
from skerry.gateway.methods import chat, extension, rest, runs, subscriptions, system
from skerry.model.errors import BusyError, ModelError, SkerryError, StateError
from skerry.model.rights import MissingScopeError
from skerry.policy import access
from skerry.policy.access import Verb
from skerry.policy.decide import Request, decide
from skerry.sdk.features import Features, registered
from skerry.sdk.methods import GatewayMethod

logger = logging.getLogger(__name__)

UNKNOWN: Final = "request.unknown_method"
_REST: Final = "skerry.gateway.methods.rest"
NO_METHODS: Final[Mapping[str, GatewayMethod]] = MappingProxyType({})


class MethodTable:
    """All methods by name."""

    def __init__(
        self,
        plugins: Mapping[str, GatewayMethod] = NO_METHODS,
        features: Features | None = None,
    ) -> None:
        self._methods: dict[str, Method[Any]] = {}
        self._features = features or registered()
        self._needs = {**access.METHODS, **self._features.methods}
        self._is_whole = False
        self._add(*runs.METHODS, *chat.METHODS, *subscriptions.METHODS, *system.METHODS)
        self._plugins = {name: one for name, one in plugins.items() if name not in self._needs}
        for name, method in self._plugins.items():
            self._needs[name] = access.Need(access.Role.OPERATOR, method.scope)

    @property
    def needs(self) -> Mapping[str, access.Need]:
        """Returns the needs of each method: of the kernel, of features, of plugins."""
        return MappingProxyType(self._needs)

    @property
    def names(self) -> list[str]:
        """Every method, sorted."""
        return sorted(self._needs)

    @property
    def named(self) -> list[str]:
        """Every method that `hello-ok` names, sorted."""
        return [name for name in self.names if name not in access.POLLED]

    @property
    def events(self) -> list[str]:
        """Returns the names of all events that may be sent."""
        return [*access.EVENTS, *self._features.events]

    @property
    def methods(self) -> list[Method[Any]]:
        """Every method, sorted by name."""
        return [found for name in self.names if (found := self._find(name))]

    def waits(self, name: str) -> bool:
        """Returns whether the method is answered only when a run ends."""
        method = self._methods.get(name)
        return method is not None and method.waits

    def call(self, frame: RequestFrame, call: Call) -> Json | Coroutine[Any, Any, Json]:
        """Returns the payload, or a coroutine of it.

        Raises:
            RefusedError: no such method, the role is another, a scope is missing, or the parameters
                do not fit.
            Exception: whatever the method raises; `shape` makes an answer of it.
        """
        _check_access(self._needs.get(frame.method, access.UNKNOWN), call, frame.method)
        if self._is_left_out(frame.method):
            return self._call_rest(frame, call)
        return self._call(frame, call)

    async def _call_rest(self, frame: RequestFrame, call: Call) -> Json:
        await anyio.to_thread.run_sync(import_module, _REST)  # so long the loop must not stand
        answer = self._call(frame, call)
        return await answer if isinstance(answer, Coroutine) else answer

    def _call(self, frame: RequestFrame, call: Call) -> Json | Coroutine[Any, Any, Json]:
        method = self._find(frame.method)
        if method is None:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"unknown method: {frame.method}",
                details={
                    "code": UNKNOWN,
                    "remedy": "Ask for one of `features.methods` in `hello-ok`.",
                },
            )
        params, warnings = given.parameters(method, bytes(frame.params))
        call.warnings.extend(warnings)
        return method.handler(call, params)

    def _is_left_out(self, name: str) -> bool:
        return name not in self._methods and name in self._needs and not self._is_whole

    def _find(self, name: str) -> Method[Any] | None:
        if self._is_left_out(name):
            self._add(*rest.METHODS, *self._features.added())
            for own, method in self._plugins.items():
                self._methods[own] = extension.method(method)
            self._is_whole = True
        return self._methods.get(name)

    def _add(self, *methods: Method[Any]) -> None:
        unruled = {method.name for method in methods} - self._needs.keys()
        if unruled:
            names = ", ".join(sorted(unruled))
            raise RuntimeError(f"policy/access.py and the features have no row for: {names}")
        self._methods |= {method.name: method for method in methods}


def _check_access(need: access.Need, call: Call, name: str) -> None:
    decision = decide(Request(call.actor, Verb.CALL, name, need))
    if decision.scope is not None:
        raise RefusedError.of(missing_scope(decision.scope), None)
    if not decision.allowed:
        raise RefusedError(ErrorCode.INVALID_REQUEST, decision.reason)


def shape(error: Exception, method: str) -> tuple[ErrorShape, Json]:
    """Returns the error, and the payload beside it, that answer a request whose method raised."""
    match error:
        case RefusedError():
            return error.shape, error.payload
        case MissingScopeError():
            return missing_scope(error.scope, error.remedy), None
        case BusyError() | StateError():
            return _ours(error, ErrorCode.UNAVAILABLE, retryable=True), None
        case ModelError():
            return _ours(error, ErrorCode.UNAVAILABLE, retryable=error.retryable), None
        case SkerryError():
            return _ours(error, ErrorCode.INVALID_REQUEST), None
    logger.error("method %s failed", method, exc_info=error)
    return ErrorShape(ErrorCode.UNAVAILABLE, "internal error", {"code": "internal"}), None


def _ours(error: SkerryError, code: ErrorCode, *, retryable: bool | None = None) -> ErrorShape:
    details = {"code": error.code}
    if error.remedy:
        details["remedy"] = error.remedy
    return ErrorShape(code, str(error), details, retryable)
