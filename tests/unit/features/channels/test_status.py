"""`channels.status` asks the platforms within the time that a client gives."""

from pathlib import Path

import anyio

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from skerry.testing.telegram_server import TOKEN
from tests.support.whole import whole_gateway


async def _silent(_: ServedRequest) -> ServedResponse:
    await anyio.sleep_forever()
    raise AssertionError


async def test_a_silent_platform_is_waited_for_as_long_as_the_client_says(tmp_path: Path) -> None:
    async with serve(_silent) as root:
        config = {"channels": {"telegram": {"apiRoot": root, "botToken": TOKEN}}}
        async with (
            whole_gateway(tmp_path / "home", Hooks(), config=config) as (_, address),
            GatewayClient(address) as client,
        ):
            with anyio.fail_after(60):
                params = {"probe": True, "timeoutMs": 1}
                status = await client.request("channels.status", params)
        (row,) = status["channelAccounts"]["telegram"]
        assert row["probe"] == {"ok": False, "error": "The platform did not respond in 1 s."}
        assert "warnings" not in status
