"""`skerry approvals` beside a running gateway."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from skerry.app.build import Application
from skerry.client.discover import GatewayAddress
from skerry.hooks.hooks import Hooks
from tests.e2e.test_approvals import asking, begin, final, ran
from tests.support.asking_tool import AskingTool
from tests.support.cli import run_command
from tests.support.whole import whole_gateway
from tests.support.wire import connected


async def skerry(
    application: Application, address: GatewayAddress, *words: str
) -> CompletedProcess[bytes]:
    """Runs `skerry approvals` against the gateway."""
    home = str(application.settings.config.state_dir)
    environ = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    environ |= {"HOME": home, "SKERRY_STATE_DIR": home}
    reach = ("--url", address.url, "--token", address.token or "")
    return await run_command("approvals", *words, *reach, environ=environ)


async def test_calls_are_listed_allowed_and_denied_and_a_second_answer_fails(
    tmp_path: Path,
) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(AskingTool())
        for key, word, text in (("r1", "allow", "a"), ("r2", "deny", "b")):
            await begin(wire, asking(text), key)
            payload = (await wire.event("exec.approval.requested"))["payload"]
            shown = await skerry(application, address, "list", "--json")
            (listed,) = json.loads(shown.stdout)["pending"]
            expected: dict[str, Any] = {
                "id": payload["id"],
                "command": f"ask {text}",
                "host": "gateway",
                "agentId": "main",
                "sessionKey": "agent:main:main",
                "createdAtMs": payload["createdAtMs"],
                "expiresAtMs": payload["expiresAtMs"],
            }
            assert expected.items() <= listed.items()
            assert f"ask {text}".encode() in (await skerry(application, address, "list")).stdout
            answered = await skerry(application, address, word, payload["id"][:8])
            assert answered.returncode == 0, answered.stderr
            await final(wire, runId=key)
            again = await skerry(application, address, word, payload["id"], "--json")
            assert again.returncode == 1
            assert b"skerry approvals list" in again.stdout + again.stderr
        assert ran(application) == ["a"]
        shown = await skerry(application, address, "list", "--json")
        assert json.loads(shown.stdout) == {"pending": []}
