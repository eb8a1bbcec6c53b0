"""Rate limits: weights by path, three layers, and nothing charged for a refused request."""

from pathlib import Path

import pytest

from skerry_relayer.rate_limits import LAYERS, MAX_WINDOWS, RequestLimits, weight_of
from tests.support.memwal import Delegate
from tests.support.relayer import Lab


@pytest.mark.parametrize(
    ("path", "weight"),
    [
        ("/api/analyze", 5),
        ("/api/%61nalyze/", 5),
        ("/api/remember/bulk", 10),
        ("/api/remember/manual", 3),
        ("/api/remember/5", 1),
        ("/api/recall", 1),
    ],
)
def test_work_weighs_by_its_path(path: str, weight: int) -> None:
    assert weight_of(path) == weight


def test_a_window_slides() -> None:
    limits = RequestLimits(on=True)
    assert all(limits.charge("k", "o", 5, second) is None for second in range(6))
    over = limits.charge("k", "o", 1, 30)
    assert over is not None
    assert over.body() == {
        "error": "Rate limit exceeded",
        "layer": "delegate_key",
        "limit": "30 weighted-requests/min",
        "retry_after_seconds": 60,
    }
    assert limits.charge("k", "o", 5, 60) is None
    assert limits.charge("k", "o", 5, 60.5) is not None


def test_keys_of_an_owner_share_two_limits_and_a_refusal_costs_nothing() -> None:
    limits = RequestLimits(on=True)
    for key in ("a", "b"):
        assert limits.charge(key, "o", 30, 0) is None
    for _ in range(3):
        over = limits.charge("c", "o", 1, 1)
        assert over is not None
        assert over.layer.name == "account_burst"
    assert limits.charge("c", "o", 30, 61) is None


def test_the_hour_is_limited_too() -> None:
    limits = RequestLimits(on=True)
    for minute in range(16):
        assert limits.charge("k", "o", 30, minute * 61) is None
    limits.charge("k", "o", 20, 16 * 61)
    over = limits.charge("k", "o", 1, 17 * 61)
    assert over is not None
    assert (over.layer.name, over.retry_after) == ("account_sustained", 300)


def test_work_found_later_counts_and_keeps_what_was_counted() -> None:
    limits = RequestLimits(on=True)
    limits.charge("k", "o", 5, 0)
    limits.add("k", "o", 24, 1)
    assert limits.charge("k", "o", 1, 2) is None
    assert limits.charge("k", "o", 1, 3) is not None


def test_windows_of_many_owners_do_not_grow_without_end() -> None:
    limits = RequestLimits(on=True)
    for number in range(MAX_WINDOWS):
        limits.charge(f"k{number}", f"o{number}", 1, 0)
    assert len(limits._windows) <= MAX_WINDOWS + len(LAYERS)


async def test_over_http_a_limit_names_its_layer_and_the_wait(tmp_path: Path) -> None:
    lab = Lab(tmp_path, limits=True)
    async with lab.http:
        for _ in range(6):
            assert (await lab.post("/api/remember", {"text": "a"})).status_code == 202
        answer = await lab.post("/api/stats", {})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
        assert answer.json()["layer"] == "delegate_key"
        second = Delegate(seed=bytes(32))
        lab.keys.add(second)
        assert (await lab.post("/api/stats", {}, by=second)).status_code == 200
        assert (await lab.http.get("/config")).json()["rateLimitDisabled"] is False
    lab.relayer.nonces.close()
