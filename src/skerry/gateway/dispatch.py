"""From a request frame to a method: the table, scopes, parameters, and errors for the wire."""

import logging
from collections.abc import Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from skerry.gateway import access
from skerry.gateway.frames import ErrorCode, ErrorShape, Json, RequestFrame
from skerry.gateway.method import Call, Method, RefusedError
from skerry.gateway.methods import (
    absent,
    changes,
    chat,
    config,
    devices,
    extension,
    logs,
    markdown,
    models,
    nodes,
    notices,
    runs,
    sessions,
    subscriptions,
    system,
    usage,
)
from skerry.gateway.problems import describe
from skerry.model.errors import BusyError, ModelError, SkerryError, StateError
from skerry.sdk.methods import GatewayMethod

logger = logging.getLogger(__name__)

_EMPTY: Final = b"{}"
NO_METHODS: Final[Mapping[str, GatewayMethod]] = MappingProxyType({})


class MethodTable:
    """All methods by name."""

    def __init__(self, plugins: Mapping[str, GatewayMethod] = NO_METHODS) -> None:
        every: Iterable[Method[Any]] = (
            *runs.METHODS,
            *chat.METHODS,
            *sessions.METHODS,
            *changes.METHODS,
            *subscriptions.METHODS,
            *models.METHODS,
            *markdown.METHODS,
            *system.METHODS,
            *notices.METHODS,
            *usage.METHODS,
            *logs.METHODS,
            *absent.METHODS,
            *extension.METHODS,
            *config.METHODS,
            *devices.METHODS,
            *nodes.METHODS,
        )
        self._methods = {method.name: method for method in every}
        unruled = self._methods.keys() ^ access.METHODS.keys()
        if unruled:
            message = f"gateway/access.py does not fit the methods: {', '.join(sorted(unruled))}"
            raise RuntimeError(message)
        self._needs = dict(access.METHODS)
        for name, method in plugins.items():
            if name not in self._methods:
                self._methods[name] = extension.method(method)
                self._needs[name] = access.Need(access.Role.OPERATOR, method.scope)

    @property
    def names(self) -> list[str]:
        """Every method, sorted."""
        return sorted(self._methods)

    @property
    def methods(self) -> list[Method[Any]]:
        """Every method, sorted by name."""
        return [self._methods[name] for name in self.names]

    def waits(self, name: str) -> bool:
        """Return whether the method is answered only when a run ends."""
        method = self._methods.get(name)
        return method is not None and method.waits

    def call(self, frame: RequestFrame, call: Call) -> Json | Coroutine[Any, Any, Json]:
        """Return the payload, or a coroutine of it.

        Raises:
            RefusedError: no such method, the role is another, a scope is missing, or the parameters
                do not fit.
            Exception: whatever the method raises; `shape` makes an answer of it.
        """
        _check_access(self._needs.get(frame.method, access.UNKNOWN), call)
        method = self._methods.get(frame.method)
        if method is None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"unknown method: {frame.method}")
        raw = bytes(frame.params)
        try:
            params = method.params.model_validate_json(_EMPTY if raw in {b"", b"null"} else raw)
        except ValidationError as error:
            message = f"invalid {method.name} params: {describe(error)}"
            raise RefusedError(ErrorCode.INVALID_REQUEST, message) from None
        return method.handler(call, params)


def _check_access(need: access.Need, call: Call) -> None:
    if need.role not in {None, call.role}:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"unauthorized role: {call.role}")
    if need.scope is not None and not access.allows(call.scopes, need.scope):
        raise RefusedError.of(access.missing_scope(need.scope), None)


def shape(error: Exception, method: str) -> tuple[ErrorShape, Json]:
    """Return the error, and the payload beside it, that answer a request whose method raised."""
    match error:
        case RefusedError():
            return error.shape, error.payload
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
