"""Errors in the form in which OpenAI's clients expect them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from skerry.gateway.request_body import DiscardingResponse
from skerry.model.errors import (
    BusyError,
    KeyReusedError,
    SkerryError,
    StateError,
    UnconfiguredAgentError,
)
from skerry.model.run import RunFailure, RunResult, StopReason

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_MAX_FAULTS: Final = 5
_MAX_PATH: Final = 200
_FAILURES: Final = {
    "model.rate_limit": 429,
    "model.billing": 429,
    "usage.budget": 429,
    "queue.full": 429,
    "model.overflow": 400,
    "run.timeout": 504,
}
"""HTTP status of a failed run by the code of its failure; others have 502."""
_OPENAI_CODES: Final = {
    "model.rate_limit": "rate_limit_exceeded",
    "model.billing": "insufficient_quota",
    "usage.budget": "insufficient_quota",
    "model.overflow": "context_length_exceeded",
}
_UNKNOWN: Final = RunFailure("run.failed", "The run failed; the log of the gateway has the reason.")


class ApiError(Exception):
    """The request is refused with an HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """Returns the error as an object of the API."""
        default = "invalid_request_error" if self.status < 500 else "server_error"  # noqa: PLR2004 - HTTP
        return {
            "error": {
                "message": str(self),
                "type": _TYPES.get(self.status, default),
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self, request: Request | None = None) -> Response:
        """Returns the error as a response; with a request, to a body that may be unread."""
        return error_response(self, self.body, request)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns a response with JSON, which no cache stores."""
    return Response(
        msgspec.json.encode(value),
        status,
        {"cache-control": "no-store", **(headers or {})},
        "application/json",
    )


def error_response(
    error: ApiError, value: dict[str, Any], request: Request | None = None
) -> Response:
    """Returns an error as a response; see `ApiError.response`."""
    response = json_response(value, error.status, error.headers)
    if request is None or getattr(request.state, READ, False):
        return response
    return DiscardingResponse(response.body, response.status_code, dict(response.headers))


READ: Final = "openai_api_read"
"""State of a request whose whole body was read."""


def invalid(error: ValidationError) -> ApiError:
    """Returns the refusal of a body with invalid fields, without their values."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    texts = [f"{_path(fault['loc'])}: {fault['msg']}" for fault in faults[:_MAX_FAULTS]]
    return ApiError(400, "; ".join(texts), param=_path(faults[0]["loc"]), code="invalid_value")


def _path(parts: tuple[int | str, ...]) -> str:
    return ".".join(map(str, parts))[:_MAX_PATH]


def refusal_of(error: SkerryError) -> ApiError:
    """Returns the refusal of a run that was not accepted."""
    text = f"{error} {error.remedy}".strip()
    match error:
        case BusyError() | StateError():
            return ApiError(503, text, code=error.code, headers={"retry-after": "5"})
        case KeyReusedError():
            message = "The Idempotency-Key belongs to a request with another body."
            return ApiError(422, message, code=error.code)
        case UnconfiguredAgentError():
            return ApiError(404, text, code="model_not_found", param="model")
        case _:
            return ApiError(400, text, code=error.code)


def failure_of(result: RunResult) -> ApiError | None:
    """Returns the error of a run that did not end with an answer; None for an answer.

    The header `x-should-retry` keeps OpenAI's clients from starting the run again by themselves.
    """
    once = {"x-should-retry": "false"}
    if result.stop_reason is StopReason.DONE:
        return None
    if result.stop_reason is StopReason.ABORTED:
        by = f" by {result.aborted_by}" if result.aborted_by else ""
        return ApiError(500, f"The run was stopped{by}.", code="run.aborted", headers=once)
    failure = result.error or _UNKNOWN
    text = f"{failure.message} {failure.remedy}".strip()
    status, code = _FAILURES.get(failure.code, 502), failure.code
    return ApiError(status, text, code=_OPENAI_CODES.get(code, code), headers=once)
