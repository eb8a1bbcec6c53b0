"""What providers' errors mean: by status first, by text second."""

import json
from typing import Any

import pytest

from skerry.model.errors import (
    ModelAuthError,
    ModelBillingError,
    ModelError,
    ModelNotFoundError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
)
from skerry.providers.failures import describe, response_failure, stream_failure

OVERFLOWS = [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Your input exceeds the context window of this model.",
    "This model's maximum context length is 8192 tokens",
    "The input token count (1200000) exceeds the maximum number of tokens allowed",
    "Input is too long for requested model.",
    "This model's maximum prompt length is 131072 but the request contains 150000",
    "Please reduce the length of the messages or completion.",
    "prompt token count of 140000 exceeds the limit of 128000",
    "request (6010 tokens) exceeds the available context size (4096 tokens)",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit",
    "Your request exceeded model token limit: 262144",
    "Prompt contains 40000 tokens and is too large for model with 32768 maximum context length",
    "too many tokens",
    "token limit exceeded",
]


def failure(status: int, text: str = "", **headers: str) -> ModelError:
    body = b'{"error":{"message":"%b"}}' % text.encode() if text else b""
    return response_failure(status, {k.replace("_", "-"): v for k, v in headers.items()}, body, "P")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelRequestError),
        (401, ModelAuthError),
        (402, ModelBillingError),
        (403, ModelAuthError),
        (404, ModelNotFoundError),
        (408, ModelOverloadedError),
        (422, ModelRequestError),
        (429, ModelRateLimitError),
        (500, ModelOverloadedError),
        (502, ModelOverloadedError),
        (503, ModelOverloadedError),
        (529, ModelOverloadedError),
        (302, ModelNotFoundError),
    ],
)
def test_the_status_decides(status: int, kind: type[ModelError]) -> None:
    error = failure(status, "something is wrong")
    assert type(error) is kind
    assert str(status) in str(error)


@pytest.mark.parametrize("text", OVERFLOWS)
@pytest.mark.parametrize("status", [400, 413])
def test_a_prompt_that_is_too_long_is_known_by_its_text(status: int, text: str) -> None:
    assert type(failure(status, text)) is ModelOverflowError


@pytest.mark.parametrize("text", OVERFLOWS)
@pytest.mark.parametrize("status", [401, 429, 503])
def test_another_status_is_no_overflow_whatever_its_text_says(status: int, text: str) -> None:
    assert type(failure(status, text)) is not ModelOverflowError


@pytest.mark.parametrize("status", [400, 413])
def test_an_empty_refusal_is_an_overflow(status: int) -> None:
    assert type(failure(status)) is ModelOverflowError


def test_an_overflow_known_by_its_code_alone() -> None:
    body = b'{"error":{"message":"no","code":"context_length_exceeded"}}'
    assert type(response_failure(400, {}, body, "P")) is ModelOverflowError


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}


def google(code: int, status: str, message: str, *details: Any) -> bytes:
    error = {"code": code, "message": message, "status": status, "details": details}
    return json.dumps({"error": error}).encode()


def openai(message: str, kind: str, code: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


def anthropic(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


BROKE = "Your credit balance is too low to access the Anthropic API."


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, openai("Rate limit reached", "tokens", "rate_limit_exceeded"), ModelRateLimitError),
        (429, openai("No.", "insufficient_quota", "insufficient_quota"), ModelBillingError),
        (429, openai("maximum context length is 1", "requests"), ModelRateLimitError),
        (401, openai("Incorrect API key", "invalid_request_error"), ModelAuthError),
        (400, openai("Big", "x", "context_length_exceeded"), ModelOverflowError),
        (503, openai("Overloaded", "server_error"), ModelOverloadedError),
        (529, anthropic("overloaded_error", "Overloaded"), ModelOverloadedError),
        (429, anthropic("rate_limit_error", "Slow down"), ModelRateLimitError),
        (400, anthropic("invalid_request_error", BROKE), ModelBillingError),
        (400, anthropic("invalid_request_error", "prompt is too long: 2 > 1"), ModelOverflowError),
        (401, anthropic("authentication_error", "invalid x-api-key"), ModelAuthError),
        (403, anthropic("permission_error", "Not yours"), ModelAuthError),
        (429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your quota"), ModelRateLimitError),
        (503, google(503, "UNAVAILABLE", "The model is overloaded."), ModelOverloadedError),
        (400, google(400, "INVALID_ARGUMENT", "API key not valid."), ModelAuthError),
        (400, google(400, "INVALID_ARGUMENT", "Bad schema"), ModelRequestError),
        (
            400,
            google(400, "X", "The input token count (9) exceeds the maximum"),
            ModelOverflowError,
        ),
        (403, google(403, "PERMISSION_DENIED", "No."), ModelAuthError),
    ],
)
def test_each_provider_s_errors_are_classed(
    status: int, body: bytes, kind: type[ModelError]
) -> None:
    assert type(response_failure(status, {}, body, "P")) is kind


def test_googles_retry_hint_is_in_the_body() -> None:
    body = google(429, "RESOURCE_EXHAUSTED", "Slow down.", {"@type": "other"}, RETRY)
    assert response_failure(429, {}, body, "P").retry_after == 37.5
    assert response_failure(429, {"retry-after": "2"}, body, "P").retry_after == 2.0
    assert response_failure(429, {}, b"[%b]" % body, "P").retry_after == 37.5


def test_the_hint_is_kept_in_the_error() -> None:
    assert failure(429, "slow down", retry_after="3").retry_after == 3.0
    assert failure(529, "busy", retry_after_ms="250").retry_after == 0.25


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":{"message":"No.","type":"t","code":"c"}}', "No. (t, c)"),
        (b'{"error":"No."}', "No."),
        (b'{"message":"No."}', "No."),
        (b'{"detail":"No."}', "No."),
        (b'[{"error":{"message":"No.","status":"INVALID"}}]', "No. (INVALID)"),
        (b"<html>\n<b>No</b>", "<html> <b>No</b>"),
        (b"\xff\x1b[31mNo", "\N{REPLACEMENT CHARACTER} [31mNo"),
        (b"", ""),
        (b"x" * 10_000, "x" * 500),
    ],
)
def test_an_error_body_becomes_one_line_for_people(body: bytes, text: str) -> None:
    assert describe(body) == text


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (b'{"code":429,"message":"slow"}', ModelRateLimitError),
        (b'{"code":"%b"}' % (b"4" * 5000), ModelOverloadedError),
        (b'{"type":"error","code":"insufficient_quota","message":"no"}', ModelBillingError),
        (b'{"code":"502","message":"bad gateway"}', ModelOverloadedError),
        (b'{"type":"rate_limit_error","message":"slow"}', ModelRateLimitError),
        (b'{"type":"overloaded_error","message":"busy"}', ModelOverloadedError),
        (b'{"type":"invalid_request_error","message":"bad"}', ModelRequestError),
        (b'{"type":"authentication_error","message":"no"}', ModelAuthError),
        (b'{"message":"maximum context length is 10 tokens"}', ModelOverflowError),
        (b'{"type":"exceed_context_size_error","message":"big"}', ModelOverflowError),
        (b'{"message":"strange"}', ModelOverloadedError),
        (b'"plain words"', ModelOverloadedError),
        (b'{"code":1,"message":"out of range"}', ModelOverloadedError),
    ],
)
def test_an_error_inside_a_stream_is_classed_by_its_words(
    error: bytes, kind: type[ModelError]
) -> None:
    assert type(stream_failure(error, "P")) is kind


def test_a_body_that_cannot_be_read_is_told_as_text() -> None:
    assert describe(b"[" * 100_000).startswith("[[[")
    assert describe(b'{"error":"\xff"}') == '{"error":"\ufffd"}'
