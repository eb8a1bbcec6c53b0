"""States that commands print for people: heartbeats in words, platforms by their names, times."""

from typing import Any

from skerry.cli.render import local_time
from tests.support.fake_gateway import FakeGateway
from tests.unit.cli.conftest import Command


async def test_a_heartbeat_is_off_where_all_are_and_its_reason_is_in_words(
    gateway: FakeGateway, command: Command
) -> None:
    ts = 1_795_544_764_862
    last = {"ts": ts, "status": "skipped", "reason": "empty-heartbeat-file"}
    row = {"agentId": "main", "everyMs": 1_800_000, "stopped": False, "last": last}
    answer: dict[str, Any] = {"enabled": False, "agents": [row]}
    gateway.answer("heartbeat.status", answer)
    shown = (await command("heartbeat", "status")).stdout.decode().splitlines()
    text = f"{local_time(ts, seconds=True)} skipped: HEARTBEAT.md has no instructions"
    assert shown[-1].split(maxsplit=3) == ["main", "30m", "off", text]
    gateway.answer("heartbeat.status", {**answer, "enabled": True})
    shown = (await command("heartbeat", "status")).stdout.decode().splitlines()
    assert shown[-1].split(maxsplit=3) == ["main", "30m", "on", text]


async def test_a_platform_that_nobody_knows_is_an_error_of_its_status(
    gateway: FakeGateway, command: Command
) -> None:
    empty: dict[str, Any] = {"channelOrder": [], "channelAccounts": {}}
    gateway.answer("channels.status", empty)
    completed = await command("channels", "status", "telegarm")
    assert completed.returncode == 1
    assert b"Unknown platform 'telegarm'. Did you mean 'telegram'?" in completed.stderr
    assert (await command("channels", "status", "telegram")).returncode == 0
