"""Pictures that an agent sends, on the page: at once, after a reload, and no file but a picture."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.e2e.browser import Chromium, address, say
from tests.e2e.test_page_images import PIXEL

pytestmark = pytest.mark.full("Chromium")


async def test_a_picture_that_an_answer_names_is_shown(browser: Chromium, tmp_path: Path) -> None:
    text = "See:\nMEDIA: out/dot.png\nMEDIA: notes.txt\nDone."
    async with (
        StubModelServer([[text]]) as model,
        running_gateway(model=model.base_url, home=tmp_path) as gate,
    ):
        folder = tmp_path / "workspace" / "out"
        folder.mkdir()
        (folder / "dot.png").write_bytes(PIXEL)
        (tmp_path / "workspace" / "notes.txt").write_text("no picture")
        page = await browser.open(address(gate))
        await say(page, "draw")
        await expect(page.locator(".answer .text")).to_contain_text("Done.")
        for _ in range(2):
            picture = page.locator(".answer .pictures img")
            await expect(picture).to_have_count(1)
            assert await picture.evaluate("image => image.naturalWidth") == 1
            await page.reload()
