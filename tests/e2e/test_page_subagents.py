"""The list of the page in Chromium: sub-agents beneath what started them, live, stopped there."""

from collections.abc import Sequence
from typing import Any

import pytest
from playwright.async_api import expect

from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer, echo_chat
from tests.e2e.browser import Chromium, address, expect_online, say

pytestmark = pytest.mark.full("Chromium")

CONFIG = {"agents": {"defaults": {"subagents": {"maxConcurrent": 8}}}}
SPAWN = 'call sessions_spawn {"task": "hold on", "label": "helper"}'


async def test_a_sub_agent_is_listed_beneath_its_parent_while_it_runs_and_can_be_stopped(
    browser: Chromium,
) -> None:
    gate = ReplyGate()

    def reply(body: dict[str, Any]) -> Sequence[HttpStep]:
        last = body["messages"][-1]
        return [gate, "late"] if last["content"] == "hold on" else echo_chat(body)

    async with (
        StubModelServer(reply) as model,
        running_gateway(model=model.base_url, config=CONFIG) as gateway,
    ):
        page = await browser.open(address(gateway))
        await expect_online(page)
        await say(page, SPAWN)
        child = page.locator('#sessions li[data-depth="1"]')
        await expect(child.locator(".name")).to_have_text("helper")
        await expect(child).to_have_attribute("data-mark", "running")
        await expect(page.locator("#sessions li").nth(0)).to_have_attribute("data-depth", "0")
        await child.hover()
        await child.get_by_role("button", name="Stop: helper").click()
        await expect(child).not_to_have_attribute("data-mark", "running")
        await expect(child.get_by_role("button", name="Stop: helper")).to_have_count(0)
        await say(page, 'call sessions_spawn {"task": "count the seals", "label": "counter"}')
        report = page.locator("article.outcome")
        await expect(report).to_contain_text("counter A sub-agent has ended: success")
        await report.get_by_text("Report", exact=True).click()
        await expect(report.locator("pre")).to_have_text("echo: count the seals")
