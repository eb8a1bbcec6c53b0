"""A database that is damaged under a real gateway, and its recovery."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayRefusedError
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.support.cli import run_command
from tests.support.damage import break_pages
from tests.support.readyz import ready


async def skerry(home: Path, *arguments: str) -> CompletedProcess[bytes]:
    environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home)}
    return await run_command(*arguments, environ=environ)


async def say(gateway: GatewayProcess, text: str, key: str) -> Any:
    async with GatewayClient(gateway.address) as client:
        return await client.request(
            "agent", {"message": text, "idempotencyKey": key, "sessionKey": key}, expect_final=True
        )


async def test_a_broken_page_is_told_and_what_can_be_read_comes_back(  # noqa: PLR0915 - one story
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home) as gateway:
        for number in range(6):
            await say(gateway, "x" * 2000 + str(number), f"chat{number}")
        made = await skerry(home, "backup", "create", "--json")
        assert made.returncode == 0, made.stderr
        refused = await skerry(home, "backup", "restore")
        assert refused.returncode == 1
        assert b"running" in refused.stderr or b"process" in refused.stderr
        await say(gateway, "after the backup", "late")
        await gateway.kill()
        break_pages(home / "state.sqlite", "entry")

        await gateway.start()
        payload = await ready(gateway)
        assert (payload["ready"], payload["storage"]) == (False, "corrupt")
        async with GatewayClient(gateway.address) as client:
            status = await client.request("status")
            assert "backup restore" in status["storage"]["remedy"]
            health = await client.request("health", {"probe": True})
            assert (health["ok"], health["storage"]["state"]) == (False, "corrupt")
        with pytest.raises(GatewayRefusedError, match="damaged"):
            await say(gateway, "new", "new")
        doctor = await skerry(home, "doctor", "--json")
        checks = {row["name"]: row["level"] for row in json.loads(doctor.stdout)}
        assert checks["database"] == "failure"
        assert await gateway.stop() == 0
        assert (await skerry(home, "backup", "verify")).returncode == 1

        restored = await skerry(home, "backup", "restore", "--json")
        assert restored.returncode == 0, restored.stderr
        report = json.loads(restored.stdout)
        # Said after the backup, it may stand on the broken page: then that is told.
        missing = {row["key"] for row in report["missing"]}
        assert missing <= {"agent:main:late"}
        assert Path(report["aside"], "state.sqlite").exists()
        assert (await skerry(home, "backup", "verify", "current")).returncode == 0

        await gateway.start()
        assert (await ready(gateway))["ready"]
        async with GatewayClient(gateway.address) as client:
            for key in (*(f"chat{number}" for number in range(6)), "late"):
                history = await client.request("chat.history", {"sessionKey": key})
                assert len(history["messages"]) == 2 or f"agent:main:{key}" in missing, key
        assert await gateway.stop() == 0
