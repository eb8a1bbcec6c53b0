"""Converts the objects of `skerry net fetch`: the request and the result."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from skerry.features.net.checking import InputError
from skerry.net.safe_fetch import MAX_BYTES, Fetched, FetchRequest

NOT_FETCHED: Final = MappingProxyType(
    {"status": None, "finalUrl": None, "bytes": 0, "truncated": False}
)
"""Further members of the answer to a line without a fetch."""


def request_of(item: Mapping[str, Any]) -> FetchRequest:
    """Returns the request of `{url, method, headers, body, maxBytes}`; only `url` is required.

    Raises:
        InputError: a value has another type.
    """
    url, method, body = item.get("url"), item.get("method", "GET"), item.get("body", "")
    headers = item.get("headers", {})
    limit = item.get("maxBytes", MAX_BYTES)
    for name, value in {"url": url, "method": method, "body": body}.items():
        if not isinstance(value, str):
            raise InputError(f"{name} is not a text.")
    if not isinstance(headers, dict) or not all(isinstance(text, str) for text in headers.values()):
        raise InputError("headers is not an object of texts.")
    if not isinstance(limit, int) or not 0 < limit <= MAX_BYTES:
        raise InputError(f"maxBytes is not a number from 1 to {MAX_BYTES}.")
    data = body.encode("utf-8", "surrogatepass")
    return FetchRequest(str(url), str(method), headers, data, limit)


def answer_of(name: object, fetched: Fetched) -> dict[str, Any]:
    """Returns the answer about a fetch."""
    return {
        "id": name,
        "verdict": str(fetched.outcome),
        "rule": fetched.rule,
        "reason": fetched.reason,
        "status": fetched.status,
        "finalUrl": fetched.final_url or None,
        "bytes": len(fetched.body),
        "truncated": fetched.truncated,
    }
