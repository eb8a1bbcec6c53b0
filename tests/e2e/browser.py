"""Chromium for the tests of the page; every page is watched for errors and foreign requests."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    WebSocket,
    async_playwright,
    expect,
)

from skerry.testing.gateway import GatewayProcess

ARGUMENTS = (
    "--no-sandbox",  # in a container there is none to be had; the pages are our own
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
GATEWAY_AWAY = re.compile(r"WebSocket connection to '[^']*' failed")
"""What Chromium says of itself when nothing listens; a page cannot keep it from saying so."""


@dataclass(slots=True)
class Chromium:
    """The browser of one test. Pages of one `profile` share its storage, as tabs do."""

    browser: Browser
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of all consoles, uncaught exceptions, requests that no page may make."""

    async def open(self, address: str, *, beside: Page | None = None, **profile: Any) -> Page:
        """Opens the address in a new tab; `beside` another, or in a profile of its own."""
        page = await self.tab(beside=beside, **profile)
        await page.goto(address)
        return page

    async def tab(self, *, beside: Page | None = None, **profile: Any) -> Page:
        """Returns a new empty tab."""
        context = beside.context if beside else await self.browser.new_context(**profile)
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        page.on("console", lambda message: self._hear(message))  # noqa: PLW0108 - playwright marks what it is given; a method of slots cannot be marked
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.complaints.extend(unfit(request)))
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        # Chromium asks for the icon again at each new address, also while nothing listens.
        itself = GATEWAY_AWAY.search(message.text) or message.location["url"].endswith("/icon.svg")
        if message.type in {"error", "warning"} and not itself:
            self.complaints.append(message.text)


def unfit(request: Request) -> list[str]:
    """Returns the fault of a request: a page may load its own files and open one WebSocket."""
    foreign = not request.url.startswith("http://127.0.0.1:")
    wrong = foreign or request.resource_type in {"fetch", "xhr", "beacon"}
    return [f"asks for {request.url}"] if wrong else []


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Runs a headless Chromium."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield browser
        await browser.close()


@asynccontextmanager
async def watched(browser: Browser) -> AsyncIterator[Chromium]:
    """Watches the pages of the block, close them, and fail if any of them complained."""
    chromium = Chromium(browser)
    try:
        yield chromium
    finally:
        for context in browser.contexts:
            await context.close()
    assert chromium.complaints == [], chromium.complaints


def sent_frames(page: Page) -> list[str]:
    """Returns a list that grows by every WebSocket frame that the page sends from now on."""
    frames: list[str] = []

    def follow(socket: WebSocket) -> None:
        socket.on("framesent", lambda payload: frames.append(str(payload)))

    page.on("websocket", follow)
    return frames


def address(gateway: GatewayProcess) -> str:
    """Returns the address that the gateway prints for a person."""
    return f"{gateway.url}/#token={gateway.token}"


async def allow(page: Page) -> None:
    """Gives the tab the administrator rights that it asks for."""
    await page.get_by_role("button", name="Allow in this tab").click()
    await expect(page.locator("#admin")).to_be_hidden()


async def say(page: Page, text: str) -> None:
    """Writes a message and sends it."""
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


async def expect_online(page: Page) -> None:
    """Waits until the page is connected."""
    await expect(page.locator("#connection")).to_have_attribute("data-state", "online")


async def expect_offline(page: Page) -> None:
    """Waits until the page says that the gateway is away."""
    await expect(page.locator("#connection-text")).to_contain_text("Offline since")


async def expect_texts(page: Page, *texts: str) -> None:
    """Waits until the conversation has exactly these texts, and nothing is being written."""
    await expect(page.locator("article .text")).to_have_text(texts)
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
