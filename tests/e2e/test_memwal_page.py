"""In Chromium: the Memory page says in one line whether the memory of the plugin works."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from skerry.testing.gateway import running_gateway
from tests.e2e.browser import Chromium, address, expect_online
from tests.e2e.test_memwal import config
from tests.support.fake_relayer import fake_relayer

pytestmark = pytest.mark.full("Chromium")


async def test_the_page_says_whether_the_memory_works_and_what_to_do(
    browser: Chromium, tmp_path: Path
) -> None:
    async with fake_relayer() as (relayer, url):
        relayer.add("User likes tea in the garden")
        async with running_gateway(home=tmp_path / "state", config=config(url)) as gateway:
            page = await browser.open(address(gateway))
            await expect_online(page)
            await page.get_by_role("button", name="Memory", exact=True).click()
            panel = page.get_by_role("dialog", name="Memory")
            line = panel.get_by_role("status").first
            await expect(line).to_contain_text(f"memory-memwal works: {url}")
            await expect(panel).to_contain_text("that of the plugin memory-memwal")
            await expect(panel).not_to_contain_text("is in Markdown files")
            await panel.get_by_role("button", name="Close").click()
            relayer.is_down = True
            await page.get_by_role("button", name="Memory", exact=True).click()
            await expect(line).to_contain_text("memory-memwal does not work")
