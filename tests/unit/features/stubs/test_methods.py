"""Methods that the page of OpenClaw 2026.9 polls: empty answers, which are not announced."""

from typing import Any

import pytest

from skerry.features.stubs.plugin import POLLED
from tests.support.gateway import Rig
from tests.support.wire import Wire, connected

ASKED: dict[str, dict[str, Any]] = {
    "sessions.branches.list": {"sessionKey": "main"},
    "sessions.companion.state": {"sessionKey": "main"},
    "sessions.observer.visibility": {"visible": True},
    "progressCard.get": {"sessionKey": "main"},
    "migrations.memory.plan": {"agentId": "main"},
}


@pytest.mark.parametrize("method", POLLED)
async def test_a_poll_is_answered_with_nothing(wire: Wire, method: str) -> None:
    answer = await wire.call(method, ASKED.get(method, {}))
    assert "warnings" not in answer
    values = answer.values() if isinstance(answer, dict) else answer
    assert [value for value in values if isinstance(value, list) and value] == []


async def test_polls_are_not_named_among_the_methods(rig: Rig) -> None:
    async with connected(rig.url) as wire:
        assert not POLLED.keys() & set(wire.hello["features"]["methods"])
        assert "agents.files.list" in wire.hello["features"]["methods"]
