"""Options of a request that `/retry` keeps, by the scopes of the client."""

import pytest
from msgspec.structs import replace

from skerry.model.ids import RunId, SessionKey
from skerry.model.run import RunRequest
from skerry.model.thinking import ThinkingLevel
from skerry.policy.access import ADMIN, READ, WRITE
from skerry.sessions.failed_message import as_asked_by

CHOSEN = RunRequest(
    RunId("r"),
    SessionKey.parse("agent:main:main"),
    "hello",
    model="acme/large",
    thinking=ThinkingLevel.HIGH,
)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ((ADMIN,), (WRITE,), False),
        (None, (WRITE,), False),
        ((WRITE,), (READ,), False),
        ((WRITE,), (WRITE,), True),
        ((READ,), (WRITE,), True),
        ((ADMIN,), (ADMIN,), True),
        (None, (ADMIN,), True),
        ((ADMIN,), None, True),
    ],
)
def test_settings_of_one_message_stay_where_who_repeats_it_may_as_much(
    first: tuple[str, ...] | None, second: tuple[str, ...] | None, *, kept: bool
) -> None:
    request = replace(CHOSEN, scopes=first)
    repeated = as_asked_by(request, second)
    assert (repeated.text, repeated.scopes) == ("hello", second)
    assert (repeated.model, repeated.thinking) == (
        ("acme/large", ThinkingLevel.HIGH) if kept else (None, None)
    )
