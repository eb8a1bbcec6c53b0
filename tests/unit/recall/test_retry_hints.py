"""The hint of a service when to come back."""

import pytest

from skerry_recall.retry_hints import retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 20:00:30 GMT",
                "date": "Sat, 21 Nov 2026 20:00:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "Sat, 21 Nov 2026 20:00:30 GMT"}, None),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 20:00:00 GMT",
                "date": "Sat, 21 Nov 2026 20:00:30 GMT",
            },
            0.0,
        ),
    ],
)
def test_the_hint_when_to_come_back_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
