"""Credentials, and how failures are slowed down."""

import pytest

from skerry.config.gateway import AuthConfig
from skerry.gateway import shared_secret
from skerry.gateway.peer import ClientPeer
from skerry.gateway.shared_secret import LOCKED_AFTER, Failures, SecretCheck
from skerry.policy.access import READ


def test_who_claims_nothing_may_only_read() -> None:
    assert shared_secret.operator_scopes(None) == (READ,)


def test_tokens_of_any_text_can_be_compared() -> None:
    assert shared_secret.same_secret("schlüssel", "schlüssel")
    assert not shared_secret.same_secret("schlüssel", "schluessel")
    assert not shared_secret.same_secret("abc", "")


def test_each_failure_waits_longer_up_to_two_seconds() -> None:
    failures = Failures()
    now = 0.0
    waits = []
    for _ in range(6):
        wait = failures.delay(ClientPeer("127.0.0.1", local=True), now)
        waits.append(wait)
        now += wait
    assert waits == [0.0, 0.25, 0.5, 1.0, 2.0, 2.0]


def test_many_at_once_are_answered_one_after_another() -> None:
    failures = Failures()
    assert [failures.delay(ClientPeer("127.0.0.1", local=True), 0.0) for _ in range(5)] == [
        0.0,
        0.25,
        0.75,
        1.75,
        3.75,
    ]


def test_one_address_has_one_count_however_it_is_written() -> None:
    failures = Failures()
    failures.delay(ClientPeer("127.0.0.1", local=True), 0.0)
    assert failures.delay(ClientPeer("::ffff:127.0.0.1", local=True), 0.0) == 0.25
    assert failures.delay(ClientPeer("192.0.2.1", local=True), 0.0) == 0.0
    assert failures.delay(ClientPeer("not an address", local=True), 0.0) == 0.0


def test_failures_are_forgotten_after_a_minute_and_after_the_right_token() -> None:
    failures = Failures()
    failures.delay(ClientPeer("127.0.0.1", local=True), 0.0)
    assert failures.delay(ClientPeer("127.0.0.1", local=True), 61.0) == 0.0
    failures.forget(ClientPeer("127.0.0.1", local=True))
    assert failures.delay(ClientPeer("127.0.0.1", local=True), 61.0) == 0.0


def test_the_addresses_remembered_are_bounded() -> None:
    failures = Failures()
    failures.delay(ClientPeer("192.0.2.1", local=True), 0.0)
    for number in range(4096):
        failures.delay(ClientPeer(f"2001:db8:{number:x}::1", local=True), 0.0)
    assert failures.delay(ClientPeer("192.0.2.1", local=True), 0.0) == 0.0
    assert len(failures._records) == 4096


def test_a_site_of_ipv6_addresses_has_one_count() -> None:
    failures = Failures()
    failures.delay(ClientPeer("2001:db8::1", local=False), 0.0)
    assert failures.delay(ClientPeer("2001:db8::2", local=False), 0.0) == 0.25
    assert failures.delay(ClientPeer("2001:db8:1::1", local=False), 0.0) == 0.0


def test_a_remote_address_is_locked_out_and_this_machine_never() -> None:
    failures = Failures()
    client_peer, there = ClientPeer("127.0.0.1", local=True), ClientPeer("192.0.2.1", local=False)
    for number in range(LOCKED_AFTER):
        assert failures.locked(there, number) == 0.0
        failures.delay(there, number)
        failures.delay(client_peer, number)
    assert failures.locked(client_peer, 9.0) == 0.0
    assert failures.locked(there, 9.0) == 300.0
    assert failures.locked(there, 310.0) == 0.0


def test_who_is_behind_a_proxy_here_does_not_count_as_this_machine() -> None:
    failures = Failures()
    for _ in range(LOCKED_AFTER):
        failures.delay(ClientPeer("127.0.0.1", local=False), 0.0)
    assert failures.locked(ClientPeer("127.0.0.1", local=False), 0.0)
    assert not failures.locked(ClientPeer("127.0.0.1", local=True), 0.0)


TOKEN = {"mode": "token", "token": "right"}
PASSWORD = {"mode": "password", "password": "right", "token": "other"}


@pytest.mark.parametrize(
    ("config", "token", "password", "shown"),
    [
        ({"mode": "none"}, None, None, SecretCheck.RIGHT),
        (TOKEN, "right", None, SecretCheck.RIGHT),
        (TOKEN, "wrong", "right", SecretCheck.WRONG),
        (TOKEN, None, "right", SecretCheck.WRONG),
        (TOKEN, "", None, SecretCheck.MISSING),
        (PASSWORD, None, "right", SecretCheck.RIGHT),
        (PASSWORD, "right", None, SecretCheck.RIGHT),
        (PASSWORD, "other", None, SecretCheck.WRONG),
        (PASSWORD, "right", "wrong", SecretCheck.WRONG),
        (PASSWORD, None, None, SecretCheck.MISSING),
        ({"mode": "token"}, "x", None, SecretCheck.WRONG),
        ({"mode": "password"}, None, "x", SecretCheck.WRONG),
    ],
)
def test_what_was_shown_is_judged_by_the_mode(
    config: dict[str, str], token: str | None, password: str | None, shown: SecretCheck
) -> None:
    assert shared_secret.check_secret(AuthConfig.model_validate(config), token, password) is shown
