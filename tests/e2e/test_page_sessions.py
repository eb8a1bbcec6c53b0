"""The page's list of conversations in Chromium: search, switch, new, rename, delete with undo."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from playwright.async_api import Locator, Page, expect

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.e2e.browser import Chromium, address, allow, expect_online, expect_texts, say

pytestmark = pytest.mark.full("Chromium")


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayProcess]:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        yield gateway


def names(page: Page) -> Locator:
    """Returns the titles in the list."""
    return page.locator("#sessions .name")


async def two_conversations(browser: Chromium, gateway: GatewayProcess) -> Page:
    """Returns a page that shows the second of two conversations, "weather" and "tides"."""
    page = await browser.open(address(gateway))
    await expect_online(page)
    await say(page, "tides")
    await expect_texts(page, "tides", "echo: tides")
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.locator("#welcome")).to_be_visible()
    await say(page, "weather")
    await expect_texts(page, "weather", "echo: weather")
    await expect(names(page)).to_have_text(["weather", "tides"])
    return page


async def test_a_new_conversation_has_its_own_address_and_survives_a_reload(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    assert "#session=agent:main:chat-" in page.url
    await page.reload()
    await expect_texts(page, "weather", "echo: weather")
    await expect(page.locator("#title")).to_have_text("weather")
    other = await browser.open(page.url, beside=page)
    await expect_texts(other, "weather", "echo: weather")


async def test_a_click_or_the_history_leads_to_another_conversation(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await names(page).filter(has_text="tides").click()
    await expect_texts(page, "tides", "echo: tides")
    await expect(page.locator("#sessions [aria-current]")).to_contain_text("tides")
    await page.go_back()
    await expect_texts(page, "weather", "echo: weather")


async def test_each_conversation_keeps_its_own_draft(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    box = page.get_by_label("Message", exact=True)
    await box.fill("half a thought")
    await names(page).filter(has_text="tides").click()
    await expect(box).to_have_value("")
    await page.go_back()
    await expect(box).to_have_value("half a thought")


async def test_search_finds_conversations_and_says_when_there_is_none(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await page.keyboard.press("Control+K")
    await page.keyboard.type("weath")
    await expect(names(page)).to_have_text(["weather"])
    await page.keyboard.type("xyz")
    await expect(page.locator("#sessions-empty")).to_have_text(
        "No conversation matches the search."
    )
    await expect(page.locator("#title")).to_have_text("weather")  # which is still shown
    await page.locator("#search").fill("")
    await expect(names(page)).to_have_text(["weather", "tides"])


async def test_a_conversation_is_renamed_in_its_place(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await page.locator("#sessions a").first.focus()
    await page.keyboard.press("F2")
    await page.keyboard.type("Sky")
    await page.keyboard.press("Enter")
    await expect(names(page)).to_have_text(["Sky", "tides"])
    await expect(page.locator("#title")).to_have_text("Sky")
    await page.get_by_role("button", name="Rename: Sky").click()
    await page.keyboard.type("never")
    await page.keyboard.press("Escape")
    await page.reload()
    await expect(names(page)).to_have_text(["Sky", "tides"])


async def test_a_deleted_conversation_comes_back_with_undo(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await page.locator("#sessions li").first.hover()
    await page.get_by_role("button", name="Delete: weather").click()
    await allow(page)
    await expect(names(page)).to_have_text(["tides"])
    await expect_texts(page, "tides", "echo: tides")
    await page.get_by_role("button", name="Undo").click()
    await expect(names(page)).to_have_text(["weather", "tides"])
    await expect_texts(page, "weather", "echo: weather")
    await expect(page.locator("#toast")).to_be_hidden()


async def test_the_main_conversation_begins_afresh_and_that_can_be_taken_back(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.open(address(gateway))
    await say(page, "tides")
    await expect_texts(page, "tides", "echo: tides")
    await page.locator("#sessions li").first.hover()
    await expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    await page.get_by_role("button", name="Reset: tides").click()
    await allow(page)
    await expect(page.locator("#welcome")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect_texts(page, "tides", "echo: tides")


async def test_the_list_is_walked_with_arrow_keys(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await page.locator("#search").focus()
    for key, focused in (("ArrowDown", "weather"), ("ArrowDown", "tides"), ("ArrowUp", "weather")):
        await page.keyboard.press(key)
        await expect(page.locator("#sessions a:focus")).to_contain_text(focused)
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect_texts(page, "tides", "echo: tides")
    await page.keyboard.press("Alt+ArrowUp")
    await expect_texts(page, "weather", "echo: weather")


async def test_the_list_marks_where_an_answer_is_written_and_what_is_unread(
    browser: Chromium,
) -> None:
    gate = ReplyGate()
    replies: Iterator[Sequence[HttpStep]] = iter([["one ", gate, "two"], ["other"]])
    async with (
        StubModelServer(lambda _: next(replies)) as model,
        running_gateway(model=model.base_url) as gateway,
    ):
        page = await browser.open(address(gateway))
        await say(page, "tides")
        row = page.locator("#sessions li").filter(has_text="tides")
        await expect(row).to_have_attribute("data-mark", "running")
        await page.keyboard.press("Alt+KeyN")
        await expect(page.locator("#welcome")).to_be_visible()
        gate.open()
        await expect(row).to_have_attribute("data-mark", "unread")
        await row.locator("a").click()
        await expect_texts(page, "tides", "one two")
        await expect(row).to_have_attribute("data-mark", "")


async def test_on_a_phone_the_list_is_a_drawer(browser: Chromium, gateway: GatewayProcess) -> None:
    phone = {"width": 360, "height": 640}
    page = await browser.open(address(gateway), viewport=phone)
    await say(page, "tides")
    await expect_texts(page, "tides", "echo: tides")
    drawer, opener = page.locator("#drawer"), page.get_by_role("button", name="Show conversations")
    await expect(drawer).to_be_hidden()
    await opener.click()
    await expect(drawer).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(drawer).to_be_hidden()
    await expect(opener).to_be_focused()
    await opener.click()
    await page.get_by_role("button", name="New conversation").click()
    await expect(drawer).to_be_hidden()
    await expect(page.locator("#welcome")).to_be_visible()


async def test_what_is_written_offline_in_two_conversations_is_sent_to_both(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await gateway.kill()
    await expect(page.locator("#countdown")).to_contain_text("tries again in")
    await say(page, "more weather")
    await names(page).filter(has_text="tides").click()
    await say(page, "more tides")
    await gateway.start()
    await expect_texts(page, "tides", "echo: tides", "more tides", "echo: more tides")
    await names(page).filter(has_text="weather").click()
    await expect_texts(page, "weather", "echo: weather", "more weather", "echo: more weather")


async def test_the_gateways_commands_are_offered(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.open(address(gateway))
    await expect_online(page)
    box = page.get_by_label("Message", exact=True)
    await box.press_sequentially("/he")
    await expect(page.get_by_role("option", name="/help")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(box).to_have_value(re.compile(r"/help ?"))
    await page.keyboard.press("Enter")
    await expect(page.locator(".answer .text")).to_contain_text("/status")


async def test_a_conversations_model_and_thinking_are_kept_by_the_gateway(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await two_conversations(browser, gateway)
    await page.locator("#model").click()
    await page.get_by_label("Model for this conversation").select_option("test/stub")
    await allow(page)
    await expect(page.locator("#tune-result")).to_have_text("Saved for this conversation.")
    await page.reload()
    await expect(names(page)).to_have_count(2)
    await page.locator("#model").click()
    await expect(page.get_by_label("Model for this conversation")).to_have_value("test/stub")
    await page.get_by_label("Model for this conversation").select_option("The default model")
    await allow(page)  # the tab was loaded anew
    await expect(page.locator("#tune-result")).to_have_text("Saved for this conversation.")
