"""Signed requests: only a fresh request of a delegate for this account is accepted, once."""

import time
from pathlib import Path

import pytest

from skerry_relayer.database import SqliteDatabase
from skerry_relayer.errors import DownError
from skerry_relayer.nonces import Nonces
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.shared_nonces import SharedNonces
from skerry_relayer.signatures import DRIFT
from tests.support.memwal import Delegate
from tests.support.relayer import NOW, Lab

STATS = b'{"namespace":"default"}'


def signed(lab: Lab, **more: str) -> dict[str, str]:
    return lab.me.headers("POST", "/api/stats", STATS, now=lab.clock(), session=False) | more


async def sent(lab: Lab, headers: dict[str, str], body: bytes = STATS) -> tuple[int, str, bytes]:
    answer = await lab.http.post("/api/stats", content=body, headers=headers)
    return answer.status_code, answer.headers.get("x-auth-error", ""), answer.content


async def test_a_signed_request_is_answered_once(lab: Lab) -> None:
    headers = signed(lab)
    assert (await sent(lab, headers))[0] == 200
    assert await sent(lab, headers) == (401, "", b"")


async def test_a_restart_does_not_forget_nonces(lab: Lab, tmp_path: Path) -> None:
    headers = signed(lab)
    assert (await sent(lab, headers))[0] == 200
    lab.relayer.nonces.close()
    lab.relayer.nonces = Nonces(tmp_path / "nonces.sqlite", "boot", lab.clock())
    assert (await sent(lab, headers))[0] == 401


async def test_what_one_relayer_accepted_another_with_the_same_database_refuses(
    lab: Lab, tmp_path: Path
) -> None:
    async with SqliteDatabase(tmp_path / "index.sqlite", steps(SQLITE)) as database:
        lab.relayer.nonces.close()
        lab.relayer.nonces = SharedNonces(database)
        headers = signed(lab)
        assert (await sent(lab, headers))[0] == 200
        lab.relayer.nonces = SharedNonces(database)
        assert (await sent(lab, headers))[0] == 401
        for _ in range(300):  # old nonces are deleted after 256 requests
            lab.clock.now += 3
            assert (await sent(lab, signed(lab)))[0] == 200
        kept = await database.read(lambda unit: unit.first_row("SELECT count(*) FROM nonce"))
        assert kept is not None
        assert kept[0] < 300


async def test_after_a_restart_of_the_machine_older_requests_are_refused(
    lab: Lab, tmp_path: Path
) -> None:
    lab.relayer.nonces.close()
    lab.relayer.nonces = Nonces(tmp_path / "nonces.sqlite", "other boot", lab.clock() + 10)
    assert (await sent(lab, signed(lab)))[0] == 401
    lab.clock.now += 10
    assert (await sent(lab, signed(lab)))[0] == 200


async def test_a_request_from_the_future_is_not_accepted_again_when_its_time_has_come(
    lab: Lab,
) -> None:
    headers = lab.me.headers("POST", "/api/stats", STATS, now=NOW + DRIFT, session=False)
    assert (await sent(lab, headers))[0] == 200
    for _ in range(300):  # old nonces are deleted after 256 requests
        lab.clock.now += 2
        await sent(lab, signed(lab))
    assert await sent(lab, headers) == (401, "", b"")


@pytest.mark.parametrize("off", [-DRIFT, DRIFT], ids=["old", "future"])
async def test_the_drift_is_allowed_and_a_second_more_is_named(lab: Lab, off: int) -> None:
    headers = signed(lab)
    lab.clock.now = NOW - off
    assert (await sent(lab, headers))[0] == 200
    headers = lab.me.headers("POST", "/api/stats", STATS, now=NOW, session=False)
    lab.clock.now = NOW - off - (1 if off > 0 else -1)
    assert await sent(lab, headers) == (401, "ERR_TIMESTAMP_OUT_OF_BOUNDS", b"")


@pytest.mark.parametrize("missing", ["x-public-key", "x-signature", "x-timestamp"])
async def test_a_missing_field_is_refused(lab: Lab, missing: str) -> None:
    headers = signed(lab)
    del headers[missing]
    assert await sent(lab, headers) == (401, "", b"")


async def test_a_client_of_the_protocol_without_nonces_must_upgrade(lab: Lab) -> None:
    headers = signed(lab)
    del headers["x-nonce"]
    assert await sent(lab, headers) == (426, "", b"")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-nonce", "5"),
        ("x-nonce", "{550e8400-e29b-41d4-a716-446655440000}"),
        ("x-timestamp", "now"),
        ("x-timestamp", "+1795293231"),
        ("x-timestamp", "1_795_293_231"),
        ("x-public-key", "ab"),
        ("x-public-key", "g" * 64),
        ("x-signature", "0" * 128),
        ("x-signature", "0" * 127),
        ("x-account-id", "0x0"),
        ("x-account-id", "0x" + "34" * 32),
    ],
)
async def test_another_value_is_refused_with_an_empty_body(lab: Lab, name: str, value: str) -> None:
    status, _, body = await sent(lab, signed(lab, **{name: value}))
    assert (status, body) == (401, b"")


async def test_a_field_that_is_sent_twice_is_refused(lab: Lab) -> None:
    headers = signed(lab)
    doubled = [*headers.items(), ("x-account-id", headers["x-account-id"])]
    answer = await lab.http.post("/api/stats", content=STATS, headers=doubled)
    assert answer.status_code == 401


async def test_the_account_in_the_header_decides_not_the_one_that_has_the_key(lab: Lab) -> None:
    other = Delegate(account_id="0x" + "34" * 32, seed=bytes(32))
    lab.keys.add(other)
    foreign = Delegate(account_id=other.account_id)
    assert (await lab.post("/api/stats", {}, by=foreign)).status_code == 401
    assert (await lab.post("/api/stats", {}, by=other)).json()["owner"] != lab.owner


async def test_a_body_or_query_that_was_not_signed_is_refused(lab: Lab) -> None:
    assert (await sent(lab, signed(lab), b'{"namespace":"other"}'))[0] == 401
    headers = signed(lab)
    answer = await lab.http.post("/api/stats?a=b", content=STATS, headers=headers)
    assert answer.status_code == 401


async def test_a_long_body_is_refused_before_the_signature(lab: Lab) -> None:
    body = b" " * (2 * 1024 * 1024 + 1)
    assert await sent(lab, signed(lab), body) == (400, "", b"")


async def test_a_revoked_key_is_refused_from_the_next_request_on(lab: Lab) -> None:
    assert (await lab.post("/api/stats", {})).status_code == 200
    await lab.keys.revoke_delegate(lab.me.account_id, lab.me.public.hex())
    assert (await lab.post("/api/stats", {})).status_code == 401


async def test_nothing_is_let_in_while_the_key_server_does_not_answer(lab: Lab) -> None:
    lab.keys.fault = DownError("The key server does not answer.")
    answer = await lab.post("/api/stats", {})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_late_refusals_wait(lab: Lab) -> None:
    before = time.monotonic()
    await sent(lab, signed(lab, **{"x-signature": "0" * 128}))
    assert time.monotonic() - before >= 0.1
