"""In Chromium: the panel that a plugin adds to the page."""

import shutil
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect

from scripts.requirements import ROOT
from skerry.testing.gateway import running_gateway
from tests.e2e.browser import Chromium, address, expect_online

pytestmark = pytest.mark.full("Chromium")


async def test_a_panel_of_a_plugin_is_opened_asks_and_follows_an_event(
    browser: Chromium, tmp_path: Path
) -> None:
    folder = tmp_path / "pond"
    shutil.copytree(ROOT / "docs" / "examples" / "plugins" / "pond", folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    config = {"plugins": {"load": {"paths": [str(folder)]}}}
    async with running_gateway(home=tmp_path / "state", config=config) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await page.get_by_role("button", name="The pond").click()
        panel = page.get_by_role("dialog", name="The pond")
        await expect(panel).to_contain_text("0 leaps so far")
        url = gateway.address.url.replace("ws:", "http:") + "/plugins/pond/hook"
        async with httpx2.AsyncClient(timeout=60) as http:
            assert (await http.post(url)).text == "1"
        await expect(panel).to_contain_text("1 leaps so far")
        await panel.get_by_role("button", name="Close").click()
        await expect(panel).to_have_count(0)
