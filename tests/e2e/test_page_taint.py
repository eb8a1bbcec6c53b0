"""The page's line about text from others in a conversation, in Chromium: why, and Clear."""

import json

import pytest
from playwright.async_api import expect

from skerry.testing.gateway import running_gateway
from tests.e2e.browser import Chromium, address, allow, expect_online, say
from tests.e2e.test_page_tools import AXE, complaints
from tests.support.net_lab import lab, reply

pytestmark = pytest.mark.full("Chromium")


async def test_a_person_sees_what_brought_words_of_others_and_clears_them(
    browser: Chromium,
) -> None:
    async with lab() as world:
        await world.serve("10.0.0.1", 80, reply(b"<p>Mail</p>", content_type="text/html"))
        host = f"127.0.0.1:{world.ports['10.0.0.1', 80]}"
        config = {"tools": {"web": {"fetch": {"ssrfPolicy": {"allowedHostnames": [host]}}}}}
        async with running_gateway(config=config) as gateway:
            page = await browser.open(address(gateway), viewport={"width": 390, "height": 844})
            await expect_online(page)
            line = page.locator("#taint")
            await say(page, "hello")
            await expect(page.locator("article .text")).to_have_count(2)
            await expect(line).to_be_hidden()
            await say(page, f"call web_fetch {json.dumps({'url': f'http://{host}/'})}")
            await expect(line).to_contain_text("text from others (the web, last by web_fetch")
            await expect(line).to_contain_text(host)
            await page.evaluate(AXE.read_text())
            assert await complaints(page) == []
            await page.reload()
            await expect(line).to_contain_text("web_fetch")
            await page.get_by_role("button", name="Clear").click()
            await page.locator("#admin").get_by_role("button", name="Cancel").click()
            await expect(line).to_be_visible()
            await page.get_by_role("button", name="Clear").click()
            await allow(page)
            await expect(line).to_be_hidden()
            await page.reload()
            await expect_online(page)
            await expect(line).to_be_hidden()
