"""Credentials, and how failures are slowed down."""

from skerry.gateway import auth
from skerry.gateway.access import READ, WRITE
from skerry.gateway.auth import Failures


def test_who_claims_nothing_is_no_admin() -> None:
    assert auth.grant(None) == (READ, WRITE)


def test_tokens_of_any_text_can_be_compared() -> None:
    assert auth.same_token("schlüssel", "schlüssel")
    assert not auth.same_token("schlüssel", "schluessel")
    assert not auth.same_token("abc", "")


def test_each_failure_waits_longer_up_to_two_seconds() -> None:
    failures = Failures()
    now = 0.0
    waits = []
    for _ in range(6):
        wait = failures.delay("127.0.0.1", now)
        waits.append(wait)
        now += wait
    assert waits == [0.0, 0.25, 0.5, 1.0, 2.0, 2.0]


def test_many_at_once_are_answered_one_after_another() -> None:
    failures = Failures()
    assert [failures.delay("127.0.0.1", 0.0) for _ in range(5)] == [0.0, 0.25, 0.75, 1.75, 3.75]


def test_one_address_has_one_count_however_it_is_written() -> None:
    failures = Failures()
    failures.delay("127.0.0.1", 0.0)
    assert failures.delay("::ffff:127.0.0.1", 0.0) == 0.25
    assert failures.delay("192.0.2.1", 0.0) == 0.0
    assert failures.delay("not an address", 0.0) == 0.0


def test_failures_are_forgotten_after_a_minute_and_after_the_right_token() -> None:
    failures = Failures()
    failures.delay("127.0.0.1", 0.0)
    assert failures.delay("127.0.0.1", 61.0) == 0.0
    failures.forget("127.0.0.1")
    assert failures.delay("127.0.0.1", 61.0) == 0.0


def test_the_addresses_remembered_are_bounded() -> None:
    failures = Failures()
    failures.delay("192.0.2.1", 0.0)
    for number in range(1024):
        failures.delay(f"2001:db8::{number:x}", 0.0)
    assert failures.delay("192.0.2.1", 0.0) == 0.0
    assert len(failures._records) == 1024
