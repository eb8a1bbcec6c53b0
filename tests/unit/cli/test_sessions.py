"""`skerry sessions`: the mirrors written anew."""

import json
import os
import subprocess
import sys
from pathlib import Path

from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway


def skerry(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skerry", *arguments],
        env={**os.environ, "SKERRY_STATE_DIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


async def test_lost_mirrors_are_written_anew_once_the_gateway_is_stopped(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        async with GatewayClient(gateway.address) as client:
            params = {"message": "hi", "sessionKey": "main", "idempotencyKey": "k"}
            await client.request("agent", params, expect_final=True)
        refused = skerry(tmp_path, "sessions", "mirror")
        assert refused.returncode == 1
        assert str(gateway.pid) in refused.stderr
        assert await gateway.stop() == 0
    (transcript,) = tmp_path.glob("agents/main/sessions/*.jsonl")
    before = transcript.read_bytes()
    transcript.unlink()
    (tmp_path / "agents/main/sessions/sessions.json").unlink()
    done = skerry(tmp_path, "sessions", "mirror", "--json")
    assert json.loads(done.stdout)["transcripts"] == 1
    assert transcript.read_bytes() == before
    assert "agent:main:main" in (tmp_path / "agents/main/sessions/sessions.json").read_text()
