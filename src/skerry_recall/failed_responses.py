"""Turns failed responses of embedding providers into errors: by status first, then text (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from skerry_recall.embed import EmbeddingError, EmbeddingRefusedError, EmbeddingUnavailableError
from skerry_recall.retry_hints import retry_after

_UNPAID: Final = re.compile(
    r"insufficient[_ ](quota|balance|credit|funds)|billing_hard_limit|credit balance",
    re.IGNORECASE,
)
_BAD_KEY: Final = re.compile(r"api_key_invalid|api key not valid|api key expired", re.IGNORECASE)
_MAX_REASON: Final = 300  # characters of the provider's message
_KEY: Final = (
    "Check its account, enter its key again, or choose another provider in"
    " agents.defaults.memorySearch."
)
_ADDRESS: Final = "Check provider, model and remote.baseUrl in agents.defaults.memorySearch."


@dataclass(frozen=True, slots=True)
class FailedResponse:
    """A response with a failing status."""

    provider: str
    status: int
    headers: Mapping[str, str]
    text: str
    """Body, without secrets."""


def failure(response: FailedResponse) -> EmbeddingError:
    """Returns the error for a response."""
    reason = _reason(response.text)
    words = f"{response.provider} answered {response.status}" + (f": {reason}" if reason else "")
    match response.status:
        case 401 | 402 | 403:
            return EmbeddingUnavailableError(words, _KEY)
        case 400 | 429 if _UNPAID.search(response.text) or _BAD_KEY.search(response.text):
            return EmbeddingUnavailableError(words, _KEY)
        case 301 | 302 | 307 | 308 | 404 | 405:
            return EmbeddingUnavailableError(words, _ADDRESS)
        case status if status in {408, 429} or status >= 500:  # noqa: PLR2004 - temporary by HTTP
            return EmbeddingError(words, retry_after=retry_after(response.headers))
    return EmbeddingRefusedError(words)


def _reason(text: str) -> str:
    """Returns the provider's message in one line."""
    try:
        parsed: Any = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        parsed = text
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    for name in ("error", "message", "detail"):
        if isinstance(parsed, dict) and name in parsed:
            parsed = parsed[name]
    printable = "".join(char if char.isprintable() else " " for char in str(parsed))
    return " ".join(printable.split())[:_MAX_REASON]
