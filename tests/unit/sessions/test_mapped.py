"""The session map of OpenClaw: its sessions, and the inferred keys of archived ones."""

import json
from typing import Any

import pytest

from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.sessions.mapped import NEAR_MS, MappedSession, StartedSession, keys, row, rows, stamp

AT = 1_771_322_400_000
MAIN, GROUP = "agent:main:main", "agent:main:telegram:group:7"


def test_labels_levels_and_counters_arrive_and_the_rest_is_named() -> None:
    entry: dict[str, Any] = {
        "sessionId": "s1",
        "updatedAt": AT,
        "label": "My Project",
        "thinkingLevel": "high",
        "verboseLevel": "loud",
        "queueMode": "steer",
        "queueCap": 5,
        "providerOverride": "openai",
        "modelOverride": "gpt-5",
        "modelProvider": "anthropic",
        "model": "claude",
        "inputTokens": 10,
        "outputTokens": 20,
        "totalTokens": 30,
        "elevatedLevel": "on",
        "execHost": "gateway",
    }
    sessions = rows(json.dumps({MAIN: entry, "x": 7, "y": {"sessionId": 7}}).encode())
    assert list(sessions) == ["s1"]
    assert sessions["s1"] == MappedSession(
        MAIN,
        "My Project",
        SessionSettings(
            model="openai/gpt-5",
            thinking_level=ThinkingLevel.HIGH,
            queue_mode=sessions["s1"].settings.queue_mode,
            queue_cap=5,
        ),
        (10, 20, 30),
        ("anthropic", "claude"),
        ("elevatedLevel", "execHost", "verboseLevel"),
    )
    assert str(sessions["s1"].settings.queue_mode) == "steer"


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b'{"a": 1}'])
def test_a_map_that_cannot_be_read_names_nothing(content: bytes) -> None:
    assert rows(content) == {}


@pytest.mark.parametrize("value", [-1, 1.5, "9", True, 1 << 60, None, []])
def test_a_counter_that_is_no_number_is_none(value: object) -> None:
    assert row(MAIN, {"inputTokens": value, "queueCap": value}).tokens == (0, 0, 0)


def test_the_time_at_the_end_of_a_name_is_read() -> None:
    assert stamp("one.jsonl.reset.2026-02-17T10-00-00.123Z") == AT + 123
    assert stamp("one.jsonl.reset.2026-02-17T10-00-00") == AT
    assert stamp("one.jsonl.reset.2026-02-31T10-00-00.123Z") is None
    assert stamp("one.jsonl") is None


def test_a_reset_session_is_of_the_conversation_whose_next_one_began_then() -> None:
    mapped = {"now": MappedSession(MAIN), "other": MappedSession(GROUP)}
    begun = [
        StartedSession("now", AT, None),
        StartedSession("before", AT - 10 * NEAR_MS, AT - 5),
        StartedSession("first", AT - 30 * NEAR_MS, AT - 10 * NEAR_MS - 5),
        StartedSession("other", AT - 50 * NEAR_MS, None),
        StartedSession("lost", AT - 90 * NEAR_MS, AT - 80 * NEAR_MS),
    ]
    assert keys(begun, mapped) == {"now": MAIN, "other": GROUP, "before": MAIN, "first": MAIN}


def test_two_that_began_at_once_leave_it_open_and_one_conversation_is_everybodys() -> None:
    begun = [
        StartedSession("a", AT, None),
        StartedSession("b", AT + 1, None),
        StartedSession("old", AT - 9, AT),
    ]
    assert "old" not in keys(begun, {"a": MappedSession(MAIN), "b": MappedSession(GROUP)})
    single = {"a": MappedSession(MAIN), "b": MappedSession("agent:main:cron:job")}
    assert keys([*begun, StartedSession("lost", 1, 2)], single)["lost"] == MAIN
