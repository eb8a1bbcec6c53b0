"""Rules of heartbeats: hours, files with nothing to do, acknowledgements."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from skerry.config.check import check
from skerry.config.heartbeat import ActiveHours, HeartbeatConfig
from skerry.features.heartbeat.rules import is_active, judged, settings
from skerry.workspace.heartbeat_file import has_work


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.requirement("heartbeat-enabled-default")
def test_an_agent_has_heartbeats_unless_they_are_switched_off(tmp_path: Path) -> None:
    def agents(**heartbeat: object) -> list[str]:
        tree = {"agents": {"defaults": {"heartbeat": heartbeat}}}
        config, _ = check(tree, state_dir=tmp_path, path=tmp_path / "skerry.json")
        return list(settings(config))

    assert agents() == ["main"]
    assert agents(enabled=False) == agents(every=0) == []


@pytest.mark.requirement("heartbeat-active-hours-config")
def test_hours_count_in_their_zone_past_midnight_and_through_summer_time() -> None:
    berlin, day = ZoneInfo("Europe/Berlin"), ActiveHours(start="08:00", end="22:00")
    assert is_active(day, at("2026-01-15T07:00"), berlin)
    assert not is_active(day, at("2026-01-15T06:59"), berlin)
    assert is_active(day, at("2026-07-15T06:00"), berlin)
    assert not is_active(day, at("2026-07-15T20:00"), berlin)
    night = ActiveHours(start="22:00", end="06:00")
    assert [is_active(night, at(f"2026-01-15T{hour:02}:00"), UTC) for hour in (21, 22, 3, 6)] == [
        *(False, True, True, False)
    ]
    assert is_active(ActiveHours(start="08:00", end="24:00"), at("2026-01-15T23:59"), UTC)
    never = ActiveHours(start="08:00", end="08:00")
    assert not any(is_active(never, at(f"2026-01-15T{hour:02}:00"), UTC) for hour in range(24))
    assert is_active(ActiveHours(), 0, UTC)


@pytest.mark.parametrize("text", ["8:00", "25:00", "24:30", "noon"])
def test_an_hour_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="time of the day"):
        ActiveHours(start=text, end="22:00")


@pytest.mark.requirement("heartbeat-every-default")
@pytest.mark.requirement("heartbeat-enabled-default")
def test_the_interval_is_half_an_hour_and_a_bare_number_is_minutes() -> None:
    assert (HeartbeatConfig().every, HeartbeatConfig().enabled) == (1_800_000, True)
    assert HeartbeatConfig.model_validate({"every": 5}).every == 300_000
    assert HeartbeatConfig.model_validate({"every": "1h"}).every == 3_600_000
    assert HeartbeatConfig.model_validate({"every": "0m"}).every == 0


@pytest.mark.requirement("heartbeat-md-template")
@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("", False),
        ("# Heartbeat\n\n- [ ]\n- \n* \n1.\n", False),
        ("<!-- one\nline each -->\n", False),
        ("# Heartbeat\n- Check the inbox", True),
        ("look at the mail", True),
    ],
)
def test_only_a_file_with_something_to_do_asks_a_model(text: str, works: bool) -> None:  # noqa: FBT001
    assert has_work(text) is works


@pytest.mark.requirement("heartbeat-ok-suppressed")
@pytest.mark.requirement("heartbeat-ack-max-chars")
@pytest.mark.parametrize(
    ("reply", "outcome", "text"),
    [
        ("", "ok-empty", ""),
        ("HEARTBEAT_OK", "ok-token", ""),
        ("**HEARTBEAT_OK**.", "ok-token", ""),
        ("<b>HEARTBEAT_OK</b>", "ok-token", ""),
        ("HEARTBEAT_OK nothing new", "ok-token", "nothing new"),
        ("All quiet. HEARTBEAT_OK!", "ok-token", "All quiet."),
        (f"HEARTBEAT_OK {'x' * 30}", "ok-token", "x" * 30),
        (f"HEARTBEAT_OK {'x' * 31}", "sent", "x" * 31),
        ("The word HEARTBEAT_OK stands here", "sent", "The word HEARTBEAT_OK stands here"),
        ("Fire!", "sent", "Fire!"),
    ],
)
def test_an_acknowledgement_is_told_from_a_finding(reply: str, outcome: str, text: str) -> None:
    assert judged(reply, 30) == (outcome, text)
