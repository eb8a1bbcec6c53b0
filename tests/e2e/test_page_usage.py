"""In Chromium: usage, archived conversations, arguments of commands."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer
from tests.e2e.browser import Chromium, address, allow, expect_online, expect_texts, say
from tests.e2e.test_page_tools import AXE, complaints

pytestmark = pytest.mark.full("Chromium")


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayProcess]:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        yield gateway


async def test_the_page_tells_what_was_used_today_and_this_month(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.open(address(gateway))
    await say(page, "tides")
    await expect_texts(page, "tides", "echo: tides")
    await page.get_by_role("button", name="Usage").click()
    panel = page.get_by_role("dialog", name="Usage")
    await expect(panel.locator("tbody th")).to_have_text(
        ["Today", "Last 7 days", "This month", "test/stub"]
    )
    await expect(panel.locator("tr", has_text="Today").locator("td").first).not_to_have_text("0")
    cost = panel.locator("tr", has_text="Today").locator("td").last
    await expect(cost).to_have_text("unknown")  # nobody named a price; it is not nothing
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()


async def test_an_archived_conversation_is_brought_back(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.open(address(gateway))
    await expect_online(page)
    await page.get_by_role("button", name="New conversation").click()
    await say(page, "weather")
    await expect_texts(page, "weather", "echo: weather")
    await page.locator("#archive summary").click()
    await expect(page.locator("#archive")).to_contain_text("are kept here for a while")
    await page.locator("#sessions li").first.hover()
    await page.get_by_role("button", name="Delete: weather").click()
    await allow(page)
    await expect(page.locator("#archive li .name")).to_have_text("weather")
    await expect(page.locator("#sessions li", has_text="weather")).to_have_count(0)
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download: weather").click()
    assert (await download.value).suggested_filename == "weather.md"
    await page.get_by_role("button", name="Restore: weather").click()
    await expect_texts(page, "weather", "echo: weather")
    await expect(page.locator("#archive")).to_contain_text("are kept here for a while")


async def test_arguments_of_commands_are_offered(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.open(address(gateway))
    await expect_online(page)
    box, offered = page.get_by_label("Message", exact=True), page.get_by_role("option")
    await box.press_sequentially("/queue ste")
    await expect(offered).to_contain_text(["steer", "steer-backlog"])
    await page.keyboard.press("Enter")
    await expect(box).to_have_value("/queue steer")
    await expect(offered).to_have_count(0)
    await box.fill("")
    await box.press_sequentially("/model te")
    await expect(offered).to_contain_text(["test/stub"])
    await page.keyboard.press("Tab")
    await expect(box).to_have_value("/model test/stub")
    await box.fill("")
    await box.press_sequentially("/queue ")
    await expect(offered.first).to_be_visible()
    await page.keyboard.press("Enter")
    await allow(page)
    await expect(page.locator(".answer .text").last).to_contain_text("collect")


async def test_axe_finds_nothing_before_the_token_nor_in_the_usage(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.open(gateway.url + "/")
    await expect(page.get_by_role("heading", name="needs its token", level=1)).to_be_visible()
    await page.evaluate(AXE.read_text())
    assert await complaints(page) == []
    page = await browser.open(address(gateway), reduced_motion="reduce")
    await page.get_by_role("button", name="Usage").click()
    await expect(page.get_by_role("dialog", name="Usage")).to_contain_text("No model was called")
    await page.evaluate(AXE.read_text())
    assert await complaints(page) == []
