"""In Chromium: logins of accounts that a person carries out in another tab, or on a phone."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.mail_server import MailServer
from skerry.testing.signal_server import NUMBER, SignalServer
from tests.e2e.browser import Chromium, address, allow, expect_online
from tests.e2e.test_page_tools import AXE, complaints
from tests.support.oauth_server import StubOAuthServer

pytestmark = pytest.mark.full("Chromium")
NARROW = {"width": 360, "height": 740}


async def panel_of(
    browser: Chromium, gateway: GatewayProcess, platform: str
) -> tuple[Page, Locator]:
    """Returns the page and its panel of channels, with the form of the platform."""
    page = await browser.open(address(gateway), viewport=NARROW)
    await expect_online(page)
    await page.get_by_role("button", name="Show conversations").click()
    await page.get_by_role("button", name="Channels", exact=True).click()
    panel = page.get_by_role("dialog", name="Channels")
    await panel.get_by_text("Add an account").click()
    await panel.get_by_label("Platform").select_option(platform)
    return page, panel


async def fits(page: Page) -> bool:
    wide = "document.querySelector('dialog[open]').scrollWidth > innerWidth"
    return not await page.evaluate(wide)


async def test_a_phone_reads_the_code_on_the_page(browser: Chromium, tmp_path: Path) -> None:
    async with SignalServer(accounts=[]) as server:
        config: dict[str, Any] = {"channels": {"signal": {"apiRoot": server.root}}}
        async with running_gateway(home=tmp_path, config=config) as gateway:
            page, panel = await panel_of(browser, gateway, "signal")
            start = panel.get_by_role("button", name="Link with a phone")
            await start.press("Enter")
            await allow(page)
            code = panel.get_by_role("img", name="QR code for the phone")
            await expect(code).to_be_focused()
            assert await code.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
            await expect(panel).to_contain_text(server.link_uri)
            await page.evaluate(AXE.read_text(encoding="utf-8"))
            assert (await complaints(page), await fits(page)) == ([], True)
            await panel.get_by_role("button", name="Cancel").press("Enter")
            await expect(panel).to_contain_text("The login was cancelled.")
            await expect(code).to_be_hidden()
            await expect(start).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(code).to_be_visible()
            server.agree(NUMBER)
            await expect(panel).to_contain_text("Signal default")
            await expect(panel).to_contain_text("Saved.")
            await expect(code).to_be_hidden()
            await gateway.stop()
        stored = json.loads((tmp_path / "skerry.json").read_text())
        assert stored["channels"]["signal"]["number"] == NUMBER


async def test_a_mailbox_is_signed_in_on_the_page(browser: Chromium, tmp_path: Path) -> None:
    async with StubOAuthServer() as issuer, MailServer(tokens=issuer.access) as mail:
        urls = {"authorizeUrl": issuer.authorize_url, "tokenUrl": issuer.token_url}
        settings = {**mail.settings, "oauth": urls}
        del settings["password"]
        config = {"channels": {"email": settings}}
        async with running_gateway(home=tmp_path, config=config) as gateway:
            page, panel = await panel_of(browser, gateway, "email")
            start = panel.get_by_role("button", name="Sign in in the browser")
            await start.press("Enter")
            await allow(page)
            await expect(panel).to_contain_text("needs the id of an application")
            await panel.get_by_label("Id of the application").fill("client")
            await start.press("Enter")
            link = panel.get_by_role("link", name="Open the page of the provider")
            await expect(link).to_be_focused()
            assert await link.get_attribute("target") == "_blank"
            await page.evaluate(AXE.read_text(encoding="utf-8"))
            assert (await complaints(page), await fits(page)) == ([], True)
            # The browser is on another machine: its person pastes where it ended.
            back = issuer.approve(await link.get_attribute("href") or "")
            await panel.get_by_label("Paste that address").fill(back)
            await page.keyboard.press("Enter")
            await expect(panel).to_contain_text("Saved.")
            await expect(panel).to_contain_text("connected")
            await gateway.stop()
        stored = json.loads((tmp_path / "skerry.json").read_text())["channels"]["email"]["oauth"]
        assert stored["refreshToken"].startswith("refresh-")
        assert mail.faults == []
