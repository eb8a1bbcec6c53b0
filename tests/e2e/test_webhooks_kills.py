"""`kill -9` around the acceptance of a webhook's post: a repeated post runs once."""

import shutil
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import pytest

from skerry.client.client import GatewayClient
from tests.support.hooks_posts import AUTH, TOKEN
from tests.support.moments import Life, Moments, echoing, life

CONFIG: Final[dict[str, Any]] = {"hooks": {"enabled": True, "token": TOKEN}}
KEYED: Final = {**AUTH, "idempotency-key": "event-1"}
POINTS: Final = ("store.before-commit:1", "store.after-commit:1", "dispatch.accepted:1")


async def post(living: Life) -> dict[str, Any]:
    url = living.address.url.replace("ws://", "http://").rstrip("/")
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{url}/hooks/agent", json={"message": "hi"}, headers=KEYED)
    assert answer.status_code == 202
    payload: dict[str, Any] = answer.json()
    return payload


async def session_roles(living: Life, key: str) -> list[str]:
    """Returns the roles of the messages of a session, once it is quiet."""
    with anyio.fail_after(60):
        while living.gateway.dispatch.active():
            await anyio.lowlevel.checkpoint()
    async with GatewayClient(living.address) as client:
        history = await client.request("chat.history", {"sessionKey": key})
    return [message["role"] for message in history["messages"]]


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    folder = tmp_path_factory.mktemp("webhooks")
    kept = Moments(folder / "now", folder / "moments", frozenset(POINTS))

    async def run() -> None:
        async with life(kept.folder, kept.reach, echoing(), CONFIG) as living:
            kept.turn = living.gateway.context.store._writer.turn
            await post(living)
            with anyio.fail_after(60):
                while kept.reached != kept.wanted:
                    await anyio.lowlevel.checkpoint()

    anyio.run(run)
    return kept


@pytest.mark.parametrize("point", POINTS)
async def test_a_post_that_is_repeated_after_a_kill_runs_once(
    tmp_path: Path, moments: Moments, point: str
) -> None:
    folder = shutil.copytree(moments[point], tmp_path / "copy")
    async with life(folder, models=echoing()) as second:
        answer = await post(second)
        assert answer["repeated"] is (point == "dispatch.accepted:1") or point.startswith("store.")
        assert await session_roles(second, answer["sessionKey"]) == ["user", "assistant"]
        assert (await post(second))["repeated"] is True
        assert await session_roles(second, answer["sessionKey"]) == ["user", "assistant"]
