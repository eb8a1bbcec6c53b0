"""Section `session`: forms, limits, and messages that say what to write."""

from typing import Any

import pytest
from pydantic import ValidationError

from skerry.config.channels import ChannelConfig
from skerry.config.commands import CommandsConfig
from skerry.config.session import MaintenanceConfig, SessionConfig
from skerry.config.warnings import without_effect

DAY = 86_400_000


def test_what_holds_without_a_section() -> None:
    config = SessionConfig()
    assert (config.scope, config.dm_scope, config.reset) == ("per-sender", None, None)
    assert config.reset_triggers == ("/new", "/reset")
    kept = config.maintenance
    assert (kept.mode, kept.prune_after, kept.max_entries) == ("warn", 30 * DAY, 500)
    assert kept.max_disk_bytes is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", 30 * DAY),
        (" 36 H ", 36 * 3_600_000),
        ("2w", 14 * DAY),
        (7, 7 * DAY),
        ("9" * 400, 10**15),
    ],
)
def test_durations_are_texts_and_a_bare_number_is_days(text: Any, expected: int) -> None:
    assert MaintenanceConfig.model_validate({"pruneAfter": text}).prune_after == expected


@pytest.mark.parametrize("text", ["", "d", "-1d", "1y", "30 days", "1h", None, True])
def test_what_is_no_duration_of_a_day_at_least_is_refused(text: Any) -> None:
    with pytest.raises(ValidationError):
        MaintenanceConfig.model_validate({"pruneAfter": text})


@pytest.mark.parametrize(
    ("text", "expected"), [("5MB", 5 << 20), ("1.5 gb", 3 << 29), ("9" * 400 + "tb", 10**15)]
)
def test_sizes_are_texts(text: str, expected: int) -> None:
    assert MaintenanceConfig.model_validate({"maxDiskBytes": text}).max_disk_bytes == expected


@pytest.mark.parametrize("text", ["5", "1kb", "many"])
def test_a_size_below_a_mebibyte_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        MaintenanceConfig.model_validate({"maxDiskBytes": text})


@pytest.mark.parametrize("text", ["123", "*", "telegram:*", "*:1", ":1", "telegram:", ""])
def test_a_person_is_named_with_the_platform(text: str) -> None:
    with pytest.raises(ValidationError, match="write it with its channel"):
        CommandsConfig.model_validate({"ownerAllowFrom": [text]})
    with pytest.raises(ValidationError, match="write it with its channel"):
        SessionConfig.model_validate({"identityLinks": {"alice": [text]}})


@pytest.mark.parametrize("key", ["dmscope", "resetbytype", "identitylinks", "dm_scoop"])
def test_a_typo_opens_nothing(key: str) -> None:
    with pytest.raises(ValidationError):
        SessionConfig.model_validate({key: "main"})


def test_keys_that_say_nothing_here_are_named() -> None:
    issues = without_effect({"session": {"mainKey": "x", "store": "y", "scope": "global"}})
    assert [issue.path for issue in issues] == ["session.mainKey", "session.store"]
    assert without_effect({"session": {}}) == without_effect({}) == []


def test_skills_of_a_topic_are_its_own_or_those_of_its_group() -> None:
    topics: dict[str, object] = {"7": {"skills": []}, "8": {}}
    group = {"skills": ["a"], "topics": topics}
    config = ChannelConfig.model_validate({"groups": {"-100": group, "-200": {}}})
    access = {name: chosen.access for name, chosen in config.groups.items()}
    assert (access["-100"].skills, access["-200"].skills) == (("a",), None)
    assert {name: chosen.skills for name, chosen in access["-100"].topics.items()} == {
        "7": (),
        "8": ("a",),
    }
