"""Delay that a service requests when it refuses, from its headers (pure)."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the hint in seconds, from `retry-after-ms` or `retry-after`; None without one.

    A date is taken against the response's own `date`, so that no clock here matters. Azure's
    `x-ms-retry-after-ms` counts as well. The headers have lower-case names.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = seconds(headers.get(name, ""))
        if milliseconds is not None:
            return milliseconds / 1000
    text = headers.get("retry-after", "")
    told_seconds = seconds(text)
    if told_seconds is not None or not text:
        return told_seconds
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):  # no date, or one with and one without a zone
        return None
    return max(wait.total_seconds(), 0.0)


def seconds(text: str) -> float | None:
    """Returns the number that the text is, if it can be a time to wait."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
