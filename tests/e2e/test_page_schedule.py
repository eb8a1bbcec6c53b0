"""In Chromium: jobs of a schedule are added, run, switched and removed; heartbeats are switched."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Locator, Page, expect

from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.e2e.browser import Chromium, address, allow, expect_online
from tests.e2e.test_page_looks import OUTSIDE
from tests.e2e.test_page_tools import AXE, complaints

pytestmark = pytest.mark.full("Chromium")


@asynccontextmanager
async def opened(browser: Chromium) -> AsyncIterator[tuple[Page, Locator]]:
    """Opens the panel of a new gateway, with administrator rights."""
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await page.get_by_role("button", name="Schedule", exact=True).click()
        panel = page.get_by_role("dialog", name="Schedule")
        await expect(panel).to_contain_text("No jobs yet.")
        yield page, panel


async def added(page: Page, panel: Locator, name: str) -> None:
    """Adds a job, for which the page asks for administrator rights."""
    await panel.get_by_text("Add a job").click()
    await panel.get_by_label("Name").fill(name)
    await panel.get_by_label("Time").fill("soon")
    await panel.get_by_label("Message to the agent").fill("When does the tide turn?")
    await panel.get_by_role("button", name="Add this job").click()
    await expect(panel).to_contain_text("soon is not an interval. Write 30m, 6h or 1d.")
    await panel.get_by_label("Time").fill("6h")
    await panel.get_by_role("button", name="Add this job").click()
    await allow(page)
    await expect(panel).to_contain_text(f"{name} on")


async def test_a_job_is_added_and_run_and_its_session_has_its_name(browser: Chromium) -> None:
    async with opened(browser) as (page, panel):
        await added(page, panel, "Tide <b>")
        await expect(panel).to_contain_text("Every 6 h, next")
        await page.evaluate(AXE.read_text(encoding="utf-8"))
        assert await complaints(page) == []
        await panel.get_by_role("button", name="Run now").click()
        await panel.get_by_text("Last runs").click()
        await expect(panel).to_contain_text("Tide <b>: ok")
        await expect(panel).to_contain_text("echo: ")
        await panel.get_by_role("button", name="Close").click()
        await expect(page.get_by_role("navigation")).to_contain_text("Tide <b>")


async def test_a_job_is_switched_off_and_removed_on_a_phone(browser: Chromium) -> None:
    async with opened(browser) as (page, panel):
        await added(page, panel, "Tide")
        await page.set_viewport_size({"width": 360, "height": 700})
        await panel.get_by_role("button", name="Switch off: Tide").click()
        await expect(panel).to_contain_text("Tide off")
        assert await page.evaluate(OUTSIDE) == []
        await panel.get_by_role("button", name="Remove: Tide").click()
        await panel.get_by_role("button", name="Remove for good: Tide").click()
        await expect(panel).to_contain_text("No jobs yet.")
        await panel.get_by_role("button", name="Switch heartbeats off").click()
        await expect(panel).to_contain_text("Heartbeats are switched off.")


async def test_the_first_screen_leads_to_what_the_gateway_can_do(browser: Chromium) -> None:
    async with running_gateway() as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        for card, panel in (
            ("On your phone", "Channels"),
            ("On a schedule", "Schedule"),
            ("It remembers", "Memory"),
            ("It asks first", "Approvals"),
        ):
            await page.locator("#abilities").get_by_role("button", name=card).click()
            await expect(page.get_by_role("dialog", name=panel)).to_be_visible()
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("dialog", name=panel)).to_be_hidden()


async def test_the_tools_of_an_agent_are_shown_with_their_rules(browser: Chromium) -> None:
    config = {"tools": {"deny": ["web_fetch"]}}
    async with running_gateway(config=config) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await page.get_by_role("button", name="Tools", exact=True).click()
        panel = page.get_by_role("dialog", name="Tools")
        await expect(panel.get_by_text("Allowed without a question")).to_be_visible()
        await expect(panel.get_by_text("memory_search", exact=True)).to_be_visible()
        await panel.get_by_text("Switched off").click()
        await panel.get_by_text("Skills (none)").click()
        await expect(panel.get_by_text("workspace/skills/NAME/SKILL.md")).to_be_visible()
        row = panel.locator("li", has=page.get_by_text("web_fetch", exact=True))
        await expect(row).to_contain_text("tools.deny")
        await page.evaluate(AXE.read_text(encoding="utf-8"))
        assert await complaints(page) == []
        await page.set_viewport_size({"width": 360, "height": 700})
        assert await page.evaluate(OUTSIDE) == []
