"""The page of an owner in Chromium: signs in the browser, shows, searches, exports and forgets."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import pytest
from playwright.async_api import Page, Request, expect

from tests.e2e.browser import PATIENCE_MS, launched
from tests.support.relayer_process import Client, Served, made, served

AXE = Path(__file__).parents[1] / "conformance/node/node_modules/axe-core/axe.min.js"

pytestmark = pytest.mark.full("Chromium and an embedding model")


@dataclass
class Opened:
    """The page, its owner, and its requests."""

    page: Page
    client: Client
    account: dict[str, str]
    running: Served
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def sign_in(self) -> None:
        await self.page.get_by_label("Account id").fill(self.account["accountId"])
        await self.page.get_by_label("Delegate key").fill(self.account["delegateKey"])
        await self.page.keyboard.press("Enter")
        await expect(self.page.locator("#memory")).to_be_visible()

    async def remember(self, text: str, namespace: str = "default") -> None:
        accepted = await self.client.post("/api/remember", {"text": text, "namespace": namespace})
        await self.client.done(accepted.json()["job_id"])


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    account = await made(tmp_path)
    async with (
        served(tmp_path) as running,
        Client(running, account) as client,
        launched() as browser,
    ):
        context = await browser.new_context(viewport={"width": 360, "height": 740})
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        seen = Opened(page, client, account, running)
        page.on("request", lambda request: seen.requests.append(request))  # noqa: PLW0108 - playwright marks what it is given
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                seen.complaints.append(message.text)
                if message.type in {"error", "warning"} and "status of 401" not in message.text
                else None
            ),
        )
        await page.goto(running.url)
        yield seen
        await context.close()
        assert seen.complaints == []
        assert all(
            request.url.startswith(running.url)
            for request in seen.requests
            if "blob:" not in request.url
        )


async def test_an_owner_sees_searches_adds_and_forgets_and_the_key_stays_in_the_page(
    opened: Opened,
) -> None:
    page = opened.page
    await opened.remember("My sister is called Ada")
    await opened.remember("I play <b>the cello</b>", "music")
    await opened.sign_in()
    await expect(page.locator("#usage")).to_contain_text("2 memories in 2 namespaces")
    await expect(page.locator("#memories")).to_contain_text("My sister is called Ada")
    await page.get_by_role("button", name="music (1)").click()
    await expect(page.locator("#memories p")).to_have_text("I play <b>the cello</b>")
    await page.get_by_label("Search this namespace").fill("Which instrument do I play?")
    await page.keyboard.press("Enter")
    await expect(page.locator("#found p")).to_have_text("I play <b>the cello</b>")
    await page.get_by_label("Text").fill("I sing in a choir")
    await page.get_by_role("button", name="Remember").click()
    await expect(page.locator("#jobs li")).to_contain_text("music: done")
    await expect(page.locator("#memories p")).to_have_text(
        ["I sing in a choir", "I play <b>the cello</b>"]
    )
    await expect(page.locator("#keys")).to_contain_text("Mara")
    await page.get_by_role("button", name="Forget: I sing").click()
    await page.get_by_role("button", name="Keep").click()
    await page.get_by_role("button", name="Forget: I sing").click()
    await page.get_by_role("button", name="Forget", exact=True).last.click()
    await expect(page.locator("#status")).to_have_text("Forgotten.")
    await expect(page.locator("#memories p")).to_have_text("I play <b>the cello</b>")
    stats = (await opened.client.post("/api/stats", {"namespace": "music"})).json()
    assert stats["memory_count"] == 1
    for request in opened.requests:
        headers = json.dumps(await request.all_headers())
        assert opened.account["delegateKey"] not in headers + request.url + (
            request.post_data or ""
        )
    kept = await page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )
    assert kept == '[{},{},""]'
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.locator("body")).not_to_contain_text("cello")


async def test_a_wrong_key_is_refused_with_a_reason(opened: Opened) -> None:
    page = opened.page
    await page.get_by_label("Account id").fill("0x12")
    await page.get_by_label("Delegate key").fill("ab")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator("#status")).to_contain_text("skerry relayer key list")
    await page.get_by_label("Account id").fill(opened.account["accountId"])
    await page.get_by_label("Delegate key").fill("ab" * 32)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator("#status")).to_contain_text("refuses this key")
    await expect(page.locator("#memory")).to_be_hidden()


async def test_the_export_has_every_text(opened: Opened) -> None:
    await opened.remember("a fact")
    await opened.remember("another fact", "work")
    await opened.sign_in()
    async with opened.page.expect_download() as download:
        await opened.page.get_by_role("button", name="Export as JSON").click()
    file = await (await download.value).path()
    exported = json.loads(await anyio.Path(file).read_text())
    texts = {(row["namespace"], row["text"]) for row in exported["memories"]}
    assert texts == {("default", "a fact"), ("work", "another fact")}


async def test_the_keyboard_alone_reaches_everything_and_nothing_is_wider_than_a_phone(
    opened: Opened,
) -> None:
    page = opened.page
    await opened.remember("w" * 300)
    await page.keyboard.press("Tab")
    await page.keyboard.type(opened.account["accountId"])
    await page.keyboard.press("Tab")
    await page.keyboard.type(opened.account["delegateKey"])
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Search this namespace")).to_be_focused()
    await expect(page.locator("#memories p")).to_have_count(1)
    reached: set[str] = set()
    for _ in range(25):
        await page.keyboard.press("Tab")
        name = await page.evaluate(
            "(document.activeElement.labels?.[0] ?? document.activeElement).textContent"
        )
        reached.add(name.strip()[:20])
    for name in ("Search", "default (1)", "Forget", "Remember", "Export as JSON", "Sign out"):
        assert name in reached, reached
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    await page.get_by_role("button", name="Forget: www").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Keep")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator("#memories p")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_before_and_after_signing_in(
    opened: Opened, scheme: Literal["light", "dark"]
) -> None:
    page = opened.page
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await opened.remember("a fact")
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    assert await faults(page) == []
    await opened.sign_in()
    await expect(page.locator("#memories p")).to_have_count(1)
    assert await faults(page) == []


async def faults(page: Page) -> list[str]:
    """Returns the rules that axe finds broken."""
    found = await page.evaluate("axe.run().then(({ violations }) => violations)")
    return [f"{fault['id']}: {node['html']}" for fault in found for node in fault["nodes"]]
