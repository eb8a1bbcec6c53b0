"""Webhooks of cron jobs over real sockets: posted with the run, and with the token to some only."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.config.cron import CronConfig
from skerry.config.root import Config
from skerry.features.cron.checks import webhook_token
from skerry.features.cron.execution import POSTS
from skerry.ports.checks import Level
from skerry.sdk.features import Installation
from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from tests.support.chaos import until
from tests.support.jobs import HOUR, jobs

TOKEN = "token-of-webhooks"  # noqa: S105 - of tests
ONCE = {"kind": "at", "at": "2026-11-24T12:30:00Z"}


@pytest.mark.abuse(26)
async def test_a_webhook_gets_the_token_only_where_the_configuration_lists_its_address(
    tmp_path: Path,
) -> None:
    posts: dict[str, ServedRequest] = {}

    async def answer(request: ServedRequest) -> ServedResponse:
        posts[request.path] = request
        return ServedResponse(status=200 if "authorization" in request.headers else 401)

    async with serve(answer) as address:
        policy = {"ssrfPolicy": {"allowedHostnames": [address.removeprefix("http://")]}}
        cron = {"webhookToken": TOKEN, "webhookTokenUrls": [f"{address}/mine"]}
        config = {"cron": cron, "tools": {"web": {"fetch": policy}}}
        async with jobs(tmp_path, config=config) as rig:
            ids = [
                await rig.add(
                    schedule=ONCE, delivery={"mode": "webhook", "to": f"{address}/{name}"}
                )
                for name in ("mine", "other")
            ]
            rig.pass_time(HOUR)
            await rig.runs(2)
            await until(lambda: len(posts) == 2, lambda: posts)
            assert posts["/mine"].headers["authorization"] == f"Bearer {TOKEN}"
            assert "authorization" not in posts["/other"].headers
            assert posts["/mine"].json["jobId"] == ids[0]
            refused: list[dict[str, Any]] = []
            with anyio.fail_after(60):
                while not refused:
                    rig.clock.advance(HOUR)
                    rig.life.gateway.context.signals.set(POSTS)
                    refused = [row for row in await rig.runs(2) if "deliveryError" in row]
            (entry,) = refused
            assert entry["jobId"] == ids[1]
            assert "cron.webhookTokenUrls does not list its address" in entry["deliveryError"]


async def test_a_server_that_does_not_answer_delays_no_other_webhook(tmp_path: Path) -> None:
    posts: list[str] = []
    quick = anyio.Event()

    async def answer(request: ServedRequest) -> ServedResponse:
        posts.append(request.path)
        if request.path == "/quick":
            quick.set()
        await quick.wait()  # the slow one answers after the other was posted
        return ServedResponse()

    async with serve(answer) as address:
        policy = {"ssrfPolicy": {"allowedHostnames": [address.removeprefix("http://")]}}
        config = {"cron": {"maxConcurrentRuns": 2}, "tools": {"web": {"fetch": policy}}}
        async with jobs(tmp_path, config=config) as rig:
            await rig.add(schedule=ONCE, delivery={"mode": "webhook", "to": f"{address}/slow"})
            rig.pass_time(HOUR)
            await rig.runs(1)
            await until(lambda: posts == ["/slow"], lambda: posts)
            soon = {"kind": "at", "at": "2026-11-24T13:30:00Z"}
            await rig.add(schedule=soon, delivery={"mode": "webhook", "to": f"{address}/quick"})
            rig.pass_time(HOUR)
            await rig.runs(2)
            delivered: list[object] = []
            with anyio.fail_after(60):
                while delivered != ["delivered"] * 2:
                    delivered = [row["deliveryStatus"] for row in await rig.runs(2)]
    assert posts == ["/slow", "/quick"]  # the slow one was not posted again


async def test_a_token_that_no_webhook_receives_is_reported(tmp_path: Path) -> None:
    for urls, number in (([], 1), (["https://example.org/"], 0)):
        cron = CronConfig.model_validate({"webhookToken": TOKEN, "webhookTokenUrls": urls})
        config = Config(state_dir=tmp_path, path=tmp_path / "skerry.json", cron=cron)
        checks = await webhook_token(Installation(tmp_path, {}, config))
        assert [check.level for check in checks] == [Level.WARNING] * number
