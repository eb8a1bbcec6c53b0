"""Administrator rights on the page: asked for once in a tab, and given back; and its token."""

from pathlib import Path

import anyio
import pytest
from playwright.async_api import Page, expect

from skerry.ports.model import ModelOffer
from skerry.testing.gateway import running_gateway as running_process
from skerry.testing.model_server import StubModelServer
from tests.e2e.browser import (
    Chromium,
    address,
    allow,
    expect_online,
    expect_texts,
    say,
)
from tests.e2e.test_page_device import approve, proxied
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.wire import connected

pytestmark = pytest.mark.full("Chromium")

LATER = """
const acts = new Map();
const [set, clear] = [setInterval, clearInterval];
globalThis.setInterval = (act, ...rest) => {
  const id = set(act, ...rest);
  acts.set(id, act);
  return id;
};
globalThis.clearInterval = (id) => (acts.delete(id), clear(id));
globalThis.later = (ms) => {
  const now = Date.now;
  Date.now = () => now() + ms;
  // The latest first: what ends the rights waits while another asks something.
  for (const act of [...acts.values()].reverse()) act();
  Date.now = now;
};
"""
"""Lets a page believe for a moment that it is later."""
KEPT = "localStorage.getItem('skerry.token')"


async def scopes(rig: Rig) -> list[list[str]]:
    """Returns the scopes of the pages that are connected."""
    async with connected(rig.url) as owner:
        payload = await owner.call("system-presence")
    pages = [one for one in payload if one.get("mode") == "webchat"]
    return [sorted(page["scopes"]) for page in pages]


async def offered(browser: Chromium, rig: Rig, tab: Page | None = None) -> Page:
    """Opens the page of a gateway that has found Ollama."""
    rig.models.offers = (ModelOffer("ollama", "Ollama", "127.0.0.1:11434", "ada"),)
    page = tab or await browser.tab()
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect_online(page)
    await page.locator("#model").click()
    await expect(page.locator("#setup-offers")).to_contain_text(
        "Ollama answers on 127.0.0.1:11434 (run by user ada)."
    )
    return page


async def test_the_page_holds_no_administrator_rights_until_a_person_allows_them(
    browser: Chromium, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path) as rig:
        page = await offered(browser, rig)
        assert await scopes(rig) == [["operator.approvals", "operator.read", "operator.write"]]
        use = page.get_by_role("button", name="Use Ollama")
        await use.click()
        dialog = page.get_by_role("dialog", name="Administrator rights")
        await expect(dialog).to_contain_text(
            "Changing the model needs administrator rights for this browser."
        )
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#setup-result")).to_contain_text("Nothing was changed.")
        assert rig.models.trusted == {}
        assert await scopes(rig) == [["operator.approvals", "operator.read", "operator.write"]]
        await use.click()
        await allow(page)
        await expect(page.locator("#setup-offers li")).to_have_count(0)
        assert rig.models.trusted == {"ollama": True}
        assert await scopes(rig) == [
            ["operator.admin", "operator.approvals", "operator.read", "operator.write"]
        ]
        await page.reload()
        await expect_online(page)
        assert await scopes(rig) == [["operator.approvals", "operator.read", "operator.write"]]


async def test_rights_end_when_nothing_is_done_in_the_tab_for_a_quarter_of_an_hour(
    browser: Chromium, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path) as rig:
        page = await browser.tab()
        await page.add_init_script(LATER)
        page = await offered(browser, rig, page)
        await page.get_by_role("button", name="Use Ollama").click()
        await allow(page)
        await expect(page.locator("#setup-offers li")).to_have_count(0)
        await page.evaluate("later(14 * 60_000)")
        assert await scopes(rig) == [
            ["operator.admin", "operator.approvals", "operator.read", "operator.write"]
        ]
        with anyio.fail_after(60):
            while await scopes(rig) != [["operator.approvals", "operator.read", "operator.write"]]:
                await page.evaluate("later(16 * 60_000)")  # not while an answer is waited for
        await expect_online(page)


async def test_a_command_that_needs_the_rights_is_asked_for_and_sent_once(
    browser: Chromium,
) -> None:
    async with StubModelServer() as model, running_process(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "tides")
        await expect_texts(page, "tides", "echo: tides")
        await say(page, "/queue")
        await allow(page)
        await expect(page.locator(".answer .text").last).to_contain_text("collect")
        await expect(page.locator("article")).to_have_count(4)
        await say(page, "/think low")  # the tab has the rights now
        await expect(page.locator("article")).to_have_count(6)


async def test_a_browser_on_another_machine_asks_for_more_as_a_device_does(
    browser: Chromium, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as (rig, place):
        rig.models.offers = (ModelOffer("ollama", "Ollama", "127.0.0.1:11434", "ada"),)
        page = await browser.open(f"{place}/#token={TOKEN}")
        await expect(page.get_by_role("heading", name="Waiting for approval")).to_be_visible()
        await approve(rig, page)
        await expect_online(page)
        await page.locator("#model").click()
        use = page.get_by_role("button", name="Use Ollama")
        await use.click()
        await allow(page)
        told = page.locator("#setup-result")
        await expect(told).to_contain_text("skerry devices approve")
        await expect_online(page)  # with what it had
        request = (await told.inner_text()).partition("approve ")[2].partition(".")[0]
        async with connected(rig.url) as owner:
            await owner.call("device.pair.approve", {"requestId": request})
        await use.click()
        await allow(page)
        await expect(page.locator("#setup-offers li")).to_have_count(0)
        assert rig.models.trusted == {"ollama": True}


async def test_a_link_with_a_wrong_token_replaces_none_that_works(
    browser: Chromium, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path) as rig:
        page = await browser.open(f"{rig.http}/#token={TOKEN}")
        await expect_online(page)
        assert await page.evaluate(KEPT) == TOKEN
        other = await browser.open(f"{rig.http}/#token=x", beside=page)
        await expect(other.locator("#toast")).to_contain_text("did not accept the new token")
        await expect_online(other)
        assert await page.evaluate(KEPT) == TOKEN
        await page.evaluate("location.hash = '#token=y'")
        await expect(page.locator("#toast")).to_contain_text("did not accept the new token")
        await expect_online(page)
        assert await page.evaluate(KEPT) == TOKEN
        fresh = await browser.open(f"{rig.http}/#token=x")
        await expect(fresh.get_by_role("heading", name="needs its token")).to_be_visible()
        assert await fresh.evaluate(KEPT) is None
        await fresh.get_by_label("Token").fill(TOKEN)
        await fresh.get_by_role("button", name="Open").click()
        await expect_online(fresh)
        assert await fresh.evaluate(KEPT) == TOKEN
