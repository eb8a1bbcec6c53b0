"""`skerry cron show` as a process, against a scripted gateway."""

from tests.support.fake_gateway import FakeGateway

from .conftest import Command


async def test_no_text_of_a_job_controls_the_terminal(
    gateway: FakeGateway, command: Command
) -> None:
    job = {
        "id": "j1",
        "name": "n\x1b[31m",
        "enabled": True,
        "agentId": "main",
        "schedule": {"kind": "at", "at": "2030\x1b[31m"},
        "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": "m\x1b[31m"},
        "deliveryPreview": {"label": "webhook", "detail": "https://h/\x1b[31m"},
        "state": {"lastError": "e\x1b[31m"},
    }
    gateway.answer("cron.list", {"jobs": [job], "nextOffset": None})
    gateway.answer("cron.get", job)
    done = await command("cron", "show", "j1")
    assert done.returncode == 0
    assert done.stdout.count(b"[31m") == 5
    assert b"\x1b" not in done.stdout
