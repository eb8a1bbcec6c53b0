"""Retry delay in the headers of a response (pure)."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the delay in seconds, from `retry-after-ms` or `retry-after`; None without one.

    A date counts from the `date` of the response, not from the local clock. Azure's
    `x-ms-retry-after-ms` is read too. The names of the headers must be lower-case.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = seconds(headers.get(name, ""))
        if milliseconds is not None:
            return milliseconds / 1000
    text = headers.get("retry-after", "")
    delay = seconds(text)
    if delay is not None or not text:
        return delay
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):  # not a date, or only one of both has a zone
        return None
    return max(wait.total_seconds(), 0.0)


def seconds(text: str) -> float | None:
    """Returns the text as a number of seconds; None if it is not finite or below 0."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
