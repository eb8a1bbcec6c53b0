"""What OpenClaw's own programs asked when they were tried: each is answered, in their version.

`make conformance` tries them anew. The record is of the pages and the command lines of 2026.2.17
and 2026.9.6, against this gateway; of the newer page only what this gateway has.
"""

from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skerry.hooks.hooks import Hooks
from tests.support.whole import whole_gateway
from tests.support.wire import connected

LINES = (Path(__file__).parent.parent / "data" / "openclaw-asks.jsonl").read_bytes().splitlines()
ASKS: dict[str, list[dict[str, Any]]] = {
    client: list(group)
    for client, group in groupby(map(msgspec.json.decode, LINES), key=lambda row: row["client"])
}
SCOPES = ["operator.admin", "operator.approvals", "operator.pairing"]


@pytest.mark.parametrize("client", ASKS)
async def test_everything_that_it_asked_is_answered(client: str, tmp_path: Path) -> None:
    asks = ASKS[client]
    version = asks[0]["protocol"]
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(
            address.url,
            minProtocol=version,
            maxProtocol=version,
            scopes=SCOPES,
            auth={"token": address.token},
        ) as wire,
    ):
        assert wire.hello["protocol"] == version
        for ask in asks:
            await wire.call(ask["method"], ask["params"])
