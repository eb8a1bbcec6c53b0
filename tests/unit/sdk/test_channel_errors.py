"""Errors of platforms: their meaning for a part, and delays without requests."""

import pytest

from skerry.sdk.channel_errors import (
    PlatformError,
    RateLimit,
    check_reached,
    named_wait,
    undelivered,
)
from skerry.sdk.channel_host import Fetched, Outcome
from skerry.sdk.channels import DeliveryDelayedError, DeliveryRefusedError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PlatformError("limit", retry_after=2.0, is_final=True), DeliveryDelayedError),
        (PlatformError("login", is_login=True, is_final=True), DeliveryDelayedError),
        (PlatformError("refused", is_final=True), DeliveryRefusedError),
        (PlatformError("refused before it", is_final=True, is_sent=False), DeliveryRefusedError),
        (PlatformError("not sent", is_sent=False), DeliveryDelayedError),
    ],
    ids=lambda value: str(value) if isinstance(value, PlatformError) else "",
)
def test_an_error_says_what_becomes_of_a_part(error: PlatformError, kind: type[Exception]) -> None:
    outcome = undelivered(error)
    assert type(outcome) is kind
    assert str(outcome) == str(error)


def test_an_error_after_which_nobody_knows_stays_as_it_is() -> None:
    error = PlatformError("broke", status=502)
    assert undelivered(error) is error


@pytest.mark.parametrize(
    ("outcome", "rule", "is_sent"),
    [
        (Outcome.BLOCK, "private", False),
        (Outcome.ABORT, "connect", False),
        (Outcome.ABORT, "name-timeout", False),
        (Outcome.ABORT, "timeout", True),
    ],
)
def test_a_request_without_an_answer_may_have_been_sent(
    outcome: Outcome, rule: str, *, is_sent: bool
) -> None:
    with pytest.raises(PlatformError, match=r"chat\.example cannot be reached: because") as caught:
        check_reached(Fetched(outcome, rule, "because"), "chat.example")
    assert caught.value.is_sent is is_sent


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("", None), ("-1", None), ("soon", None)]
)
def test_a_wait_is_a_number_of_seconds(header: str, seconds: float | None) -> None:
    fetched = Fetched(Outcome.ALLOW, "public", "", 429, headers={"retry-after": header})
    assert named_wait(fetched) == seconds


async def test_nothing_is_sent_while_the_platform_wants_no_request() -> None:
    limit = RateLimit("Chat")
    limit.refuse()
    with pytest.raises(DeliveryDelayedError), limit.sending():
        raise PlatformError("too many", retry_after=30.0)
    assert limit.is_reached
    with pytest.raises(DeliveryDelayedError, match="The rate limit of Chat is reached"):
        limit.refuse()


async def test_a_limit_of_one_person_holds_back_nobody_else() -> None:
    limit = RateLimit("Chat", single={"17"})
    with pytest.raises(DeliveryDelayedError), limit.sending():
        raise PlatformError("too many to her", code="17", retry_after=30.0)
    assert not limit.is_reached


async def test_refused_credentials_are_reported_and_other_errors_pass() -> None:
    reported: list[PlatformError] = []
    limit = RateLimit("Chat", reported.append)
    login, broken = PlatformError("login", is_login=True), PlatformError("broke")
    with pytest.raises(DeliveryDelayedError), limit.sending():
        raise login
    with pytest.raises(PlatformError, match="broke"), limit.sending():
        raise broken
    assert reported == [login]
