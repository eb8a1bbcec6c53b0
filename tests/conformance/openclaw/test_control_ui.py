"""The page of OpenClaw 2026.2.17, unmodified, in Chromium, in front of a gateway of ours."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer
from tests.conformance.openclaw.witness import Witness, witness
from tests.e2e.browser import ARGUMENTS

UI = Path(__file__).parent / "2026.2.17" / "node_modules" / "openclaw" / "dist" / "control-ui"
TABS = ("overview", "channels", "instances", "sessions", "usage", "cron", "skills", "nodes")
MORE = ("config", "debug", "logs")

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SKERRY_OPENCLAW"), reason="make conformance runs it"),
]


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayProcess]:
    async with StubModelServer(pieces=4) as model, running_gateway(model=model.base_url) as gateway:
        yield gateway


@pytest.fixture
async def seen(gateway: GatewayProcess) -> AsyncIterator[Witness]:
    async with witness(gateway.address.url, UI) as seen:
        yield seen


@pytest.fixture
async def page(gateway: GatewayProcess, seen: Witness) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=list(ARGUMENTS)
        )
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        await page.goto(f"http://{seen.host}/chat?session=main#token={gateway.token}")
        yield page
        await browser.close()


async def test_it_connects_in_protocol_3_and_is_content(page: Page, seen: Witness) -> None:
    await expect(page.get_by_text("Health", exact=True)).to_be_visible()
    await expect(page.get_by_role("banner").get_by_text("OK")).to_be_visible()
    assert seen.methods()[0] == "connect"
    assert seen.refused() == []


async def test_a_message_is_answered_and_kept(page: Page, seen: Witness) -> None:
    await expect(page.get_by_role("banner").get_by_text("OK")).to_be_visible()
    box = page.locator("textarea").first
    await box.fill("hello there")
    await box.press("Enter")
    await expect(page.get_by_text("echo: hello there")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("echo: hello there")).to_be_visible()
    assert seen.refused() == []


@pytest.mark.parametrize("tab", [*TABS, *MORE])
async def test_every_page_of_it_opens_without_a_refusal(
    page: Page, seen: Witness, tab: str
) -> None:
    await expect(page.get_by_role("banner").get_by_text("OK")).to_be_visible()
    await page.goto(f"http://{seen.host}/{tab}")
    await expect(page.get_by_role("banner").get_by_text("OK")).to_be_visible()
    await page.wait_for_timeout(1000)  # it asks by itself, and tells nobody when it has all
    assert seen.refused() == []
