"""Calls on the page over a whole gateway: output that grows, a kill while one waits, late words."""

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from skerry.hooks.hooks import Hooks
from skerry.runtime import call_approvals
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.e2e.browser import Chromium, address, expect_offline, expect_online, say, watched
from tests.support.whole import whole_gateway

pytestmark = pytest.mark.full("Chromium")

LAND = "echo landed >> log.txt; echo lines: $(wc -l < log.txt)"
ASK = {"tools": {"exec": {"ask": "always"}}}


def workspace(gateway: GatewayProcess) -> Path:
    (folder,) = gateway.home.glob("workspace*")
    return folder


def call(command: str, **more: int) -> str:
    return f"call exec {json.dumps({'command': command, **more})}"


def question(page: Page) -> Locator:
    return page.locator("#log .question")


async def test_the_output_of_a_command_grows_in_its_card(browser: Chromium) -> None:
    wait = "until [ -e {} ]; do sleep 0.05; done"
    command = f"echo ebb; {wait.format('one')}; echo flood; {wait.format('two')}; exit 4"
    async with running_gateway(config={"tools": {"exec": {"ask": "off"}}}) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await say(page, call(command, yieldMs=120_000))
        shown = page.locator("#log .tools details[open] pre").last
        await expect(shown).to_have_text("ebb\n")
        (workspace(gateway) / "one").touch()
        await expect(shown).to_have_text("ebb\nflood\n")
        await expect(page.locator("#log .tools li")).to_have_attribute("data-state", "working")
        (workspace(gateway) / "two").touch()
        await expect(page.locator("#log .tool-state")).to_have_text(re.compile("^exit 4 · "))


async def test_a_question_outlives_the_gateway_and_its_call_runs_once(browser: Chromium) -> None:
    async with running_gateway(config=ASK) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await say(page, call(LAND))
        await expect(question(page)).to_have_count(1)
        await gateway.kill()
        await expect_offline(page)
        await gateway.start()
        await page.reload()
        await expect_online(page)
        await expect(page.locator("#waiting-count")).to_have_text("1")
        await page.locator("#waiting").click()
        inbox = page.get_by_role("dialog", name="Approvals")
        await expect(inbox.locator(".command")).to_have_text(LAND)
        await inbox.get_by_role("button", name="Allow once").click()
        await expect(inbox).to_contain_text("Nothing waits for your approval.")
        await inbox.get_by_role("button", name="Close").click()
        await expect(page.locator("#log")).to_contain_text("lines: 1")
        assert (workspace(gateway) / "log.txt").read_text() == "landed\n"


@pytest.mark.parametrize("button", ["Allow once", "Deny"])
async def test_a_word_that_comes_late_is_told_in_the_card_and_below(
    tmp_path: Path, process: Browser, monkeypatch: pytest.MonkeyPatch, button: str
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=ASK) as (_, at),
        watched(process) as browser,
    ):
        page = await browser.open(f"{at.url.replace('ws:', 'http:')}/#token={at.token}")
        await expect_online(page)
        await say(page, call("echo harbour"))
        await expect(page.locator("#log .answer[data-state=done]")).to_have_count(1)
        await expect(page.locator("#log .tool-state")).to_have_text("waits for you")
        await question(page).get_by_role("button", name=button).click()
        outcome = page.locator("#log .outcome")
        decided = page.locator("#log .decided")
        if button == "Deny":
            await expect(page.locator("#log .tool-state")).to_have_text("denied")
            await expect(decided).to_contain_text("Denied; it did not run.")
            await expect(outcome.locator("pre")).to_have_count(0)
        else:
            await expect(page.locator("#log .tool-state")).to_have_text("ran later")
            await expect(decided).to_contain_text("Approved; it ran once and ended.")
            await expect(outcome.locator("pre")).to_have_text(re.compile("^harbour"))
        await expect(outcome.locator(".place")).to_contain_text("exec")
        await expect(page.locator("#log .person")).to_have_count(1)
        await page.reload()
        await expect(outcome).to_have_count(1)
