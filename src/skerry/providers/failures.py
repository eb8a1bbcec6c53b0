"""Classification of a provider's errors: by status first, by text second (pure).

A 429 is never an overflow, whatever its text says.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from skerry.infra.untrusted_json import UNREADABLE
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
from skerry_recall.retry_hints import retry_after, seconds

_OVERFLOW: Final = re.compile(
    r"""
      prompt\ is\ too\ long                                   # Anthropic
    | exceeds\ the\ context\ window | context_length_exceeded # OpenAI
    | maximum\ context\ length                                # OpenAI, OpenRouter, vLLM, Mistral
    | input\ token\ count.{0,200}exceeds\ the\ maximum        # Gemini
    | input\ is\ too\ long\ for\ requested\ model             # Bedrock
    | maximum\ prompt\ length\ is                             # xAI
    | reduce\ the\ length\ of\ the\ messages                  # Groq
    | exceeds\ the\ limit\ of\ \d+                            # Copilot
    | exceeds\ the\ available\ context | exceed_context_size  # llama.cpp
    | greater\ than\ the\ context\ length                     # LM Studio
    | context\ window\ exceeds\ limit                         # MiniMax
    | exceeded\ model\ token\ limit                           # Kimi
    | model_context_window_exceeded                           # z.ai
    | too\ large\ for\ model\ with\ \d+\ maximum          # Mistral
    | too\ many\ tokens | token\ limit\ exceeded
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_UNPAID: Final = re.compile(
    r"insufficient[_ ](quota|balance|credit|funds)|credit balance is too low|billing_hard_limit",
    re.IGNORECASE,
)
_MAY_BE_UNPAID: Final = frozenset({400, 403, 429})
_MAY_BE_A_BAD_KEY: Final = frozenset({400})  # Gemini
_BAD_KEY: Final = re.compile(r"api_key_invalid|api key not valid|api key expired", re.IGNORECASE)
# Some local servers answer an overflow with 500; Cerebras with an empty 400 or 413.
_MAY_OVERFLOW: Final = frozenset({400, 413, 422, 500})
_MAY_OVERFLOW_SILENTLY: Final = frozenset({400, 413})
_NOT_THERE: Final = frozenset({301, 302, 307, 308, 404})
_ERROR_STATUS: Final = re.compile(r"[45][0-9]{2}")
_MAX_CHARACTERS: Final = 500  # characters of the provider's own words

# An error inside a stream has no status: these words of its type or code stand for one.
_STATUS_BY_WORD: Final = (
    ("insufficient_quota", 402),
    ("rate_limit", 429),
    ("resource_exhausted", 429),
    ("overloaded", 529),
    ("authentication", 401),
    ("api_key", 401),
    ("permission", 403),
    ("invalid_", 400),
    ("context", 400),
)


def response_failure(
    status: int, headers: Mapping[str, str], body: bytes, provider: str
) -> ModelError:
    """Returns the error for a response with a failing status.

    `headers` has lower-case names; `provider` is its name for people.
    """
    after = retry_after(headers)
    return _failure(
        status, describe(body), provider, _delay_in_body(body) if after is None else after
    )


def stream_failure(error: bytes, provider: str) -> ModelError:
    """Returns the error for an error object inside a stream; an unknown one may be retried."""
    text = describe(b'{"error":%b}' % error)
    return _failure(_stream_status(error, text), text, provider, _delay_in_body(error))


def body_failure(body: bytes, provider: str) -> ModelError | None:
    """Returns the error in the body of a successful response; None without an error."""
    parsed = _json(body)
    if isinstance(parsed, list) and parsed:  # Gemini wraps its errors in a list
        parsed = parsed[0]
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return stream_failure(msgspec.json.encode(error), provider) if error else None


def _failure(status: int, text: str, provider: str, after: float | None) -> ModelError:
    detail = f": {text}" if text else ""
    if _is_unpaid(status, text):
        return ModelBillingError(f"The account at {provider} has no credit left ({status}){detail}")
    if status == 429:  # noqa: PLR2004 - HTTP: too many requests
        return ModelRateLimitError(f"{provider} limits the rate (429){detail}", retry_after=after)
    if status in {401, 403} or (status in _MAY_BE_A_BAD_KEY and _BAD_KEY.search(text)):
        return ModelAuthError(f"{provider} refused the key ({status}){detail}")
    if _overflows(status, text):
        return ModelOverflowError(f"The conversation is too long for {provider} ({status}){detail}")
    if status >= 500 or status == 408:  # noqa: PLR2004 - HTTP: server errors, request timeout
        return ModelOverloadedError(f"{provider} is failing ({status}){detail}", retry_after=after)
    if 300 <= status < 400:  # noqa: PLR2004 - HTTP: redirects
        detail = ": it returned a redirect, which is not followed. Check the base URL."
    kind = ModelNotFoundError if status in _NOT_THERE else ModelRequestError
    return kind(f"{provider} refused the request ({status}){detail}")


def _is_unpaid(status: int, text: str) -> bool:
    """Returns whether a refusal is about money: by status 402, or by text where many mean it."""
    if status == 402:  # noqa: PLR2004 - HTTP: payment required
        return True
    return status in _MAY_BE_UNPAID and _UNPAID.search(text) is not None


def _overflows(status: int, text: str) -> bool:
    if not text:
        return status in _MAY_OVERFLOW_SILENTLY
    return status in _MAY_OVERFLOW and _OVERFLOW.search(text) is not None


def _stream_status(error: bytes, text: str) -> int:
    parsed = _json(error)
    code = parsed.get("code") if isinstance(parsed, dict) else None
    if _ERROR_STATUS.fullmatch(str(code)):
        return int(str(code))
    words = text.lower()
    if _OVERFLOW.search(words):
        return 400
    return next((status for word, status in _STATUS_BY_WORD if word in words), 500)


def describe(body: bytes) -> str:
    """Summarises an error body in one line for people: message, type and code if present."""
    parsed = _json(body)
    if isinstance(parsed, list) and parsed:  # Gemini wraps its errors in a list
        parsed = parsed[0]
    if isinstance(parsed, dict):
        error = parsed.get("error", parsed)
        if isinstance(error, dict):
            message = error.get("message") or error.get("detail") or ""
            kinds = [str(error[key]) for key in ("type", "code", "status") if error.get(key)]
            text = f"{message} ({', '.join(kinds)})" if kinds else str(message)
        else:
            text = str(error)
    else:
        text = body.decode(errors="replace")
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:_MAX_CHARACTERS]


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except UNREADABLE:
        return None


def _delay_in_body(body: bytes) -> float | None:
    """Returns the hint in seconds that a body carries as `google.rpc.RetryInfo`."""
    parsed = _json(body)
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("rpc.RetryInfo"):
            return seconds(str(detail.get("retryDelay", "")).removesuffix("s"))
    return None
