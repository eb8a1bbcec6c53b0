"""The page while messages wait: their display, their start, and their withdrawal."""

from collections.abc import Sequence
from typing import Any

import pytest
from playwright.async_api import expect

from skerry.model.message import ToolCall
from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer, echo_chat
from tests.e2e.browser import Chromium, address, allow, expect_texts, say

pytestmark = pytest.mark.full("Chromium")


class Island:
    """A model whose answer to "island" waits at a gate, as that to a collected prompt may."""

    def __init__(self, *, both: bool = False) -> None:
        self.first = ReplyGate()
        self.both = ReplyGate() if both else None
        self.seen: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Sequence[HttpStep]:
        content = body["messages"][-1]["content"]
        self.seen.append(content)
        if content == "island":
            return ["A skerry is ", self.first, "a small island."]
        if content.startswith("[Queued messages"):
            return ["To both ", *([self.both] if self.both else []), "at once."]
        return echo_chat(body)


WHOLE = "A skerry is a small island."


async def test_messages_that_wait_are_answered_together_and_read_as_they_were_written(
    browser: Chromium,
) -> None:
    script = Island(both=True)
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        await expect(page.locator(".answer .text")).to_have_text("A skerry is ")
        await say(page, "how high?")
        await say(page, "and how old?")
        states = page.locator(".person .state")
        await expect(states).to_have_text(["Queued"] * 2)
        script.first.open()
        shown = ["island", WHOLE, "how high?", "and how old?"]
        texts = page.locator("article .text")
        await expect(texts).to_have_text([*shown, "To both "])
        await expect(states).to_have_count(0)
        await page.reload()
        await expect(texts).to_have_text([*shown, "To both "])
        assert script.both is not None
        script.both.open()
        await expect_texts(page, *shown, "To both at once.")
        await expect(page.locator(".answer")).to_have_count(2)
        await page.reload()
        await expect_texts(page, *shown, "To both at once.")
        assert len(script.seen) == 2
        kept = await page.evaluate("JSON.stringify({...localStorage})")
        assert "how high?" not in kept


async def test_a_waiting_message_is_taken_back_into_the_box(browser: Chromium) -> None:
    script = Island()
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        await expect(page.locator(".answer .text")).to_have_text("A skerry is ")
        await say(page, "how higj?")
        await page.get_by_role("button", name="Withdraw").click()
        await expect(page.locator(".person")).to_have_count(1)
        box = page.get_by_label("Message", exact=True)
        await expect(box).to_have_value("how higj?")
        await expect(box).to_be_focused()
        await say(page, "how high?")
        script.first.open()
        shown = ("island", WHOLE, "how high?", "echo: how high?")
        await expect_texts(page, *shown)
        await page.reload()
        await expect_texts(page, *shown)
        assert script.seen == ["island", "how high?"]


async def test_another_browser_sees_what_waits(browser: Chromium) -> None:
    script = Island()
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        await say(page, "how high?")
        await expect(page.locator(".person .state").last).to_have_text("Queued")
        other = await browser.open(address(gateway))
        await expect(other.locator(".person .state").last).to_have_text("Queued")
        await expect(other.locator(".person .state")).to_have_count(1)
        await expect(other.locator(".person .text").last).to_have_text("how high?")
        await other.get_by_role("button", name="Withdraw").click()
        for one in (other, page):
            await expect(one.locator(".person")).to_have_count(1)
        script.first.open()
        for one in (other, page):
            await expect_texts(one, "island", WHOLE)


async def test_a_message_that_steers_is_shown_before_the_answer_that_heeds_it(
    browser: Chromium,
) -> None:
    gate = ReplyGate()
    read = ToolCall("c1", "read", {"path": "AGENTS.md"})
    replies: list[Sequence[HttpStep]] = [["Let me look. ", gate, read], ["Well, faster."]]
    config = {"messages": {"queue": {"mode": "steer"}}}
    async with (
        StubModelServer(lambda _: replies.pop(0)) as model,
        running_gateway(model=model.base_url, config=config) as gateway,
    ):
        page = await browser.open(address(gateway))
        await say(page, "work")
        await expect(page.locator(".answer .text")).to_contain_text("Let me look.")
        await say(page, "faster")
        await expect(page.locator(".person")).to_have_count(2)
        gate.open()
        await expect(page.locator(".answer .text").last).to_contain_text("Well, faster.")
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        await expect(page.locator(".person .text")).to_have_text(["work", "faster"])
        await expect(page.locator(".waiting:visible")).to_have_count(0)
        await page.reload()
        await expect(page.locator(".person .text")).to_have_text(["work", "faster"])


async def test_a_command_is_answered_beside_a_run_and_its_answer_stays(browser: Chromium) -> None:
    script = Island()
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        await expect(page.locator(".answer .text")).to_have_text("A skerry is ")
        await say(page, "/queue")
        await allow(page)
        texts = page.locator(".answer .text")
        await expect(texts).to_contain_text(["A skerry is ", "collect"])
        script.first.open()
        await expect(texts).to_contain_text([WHOLE, "collect"])
        await say(page, "how high?")
        await expect(texts).to_contain_text([WHOLE, "collect", "echo: how high?"])


async def test_a_message_that_finds_no_place_says_so_and_can_be_sent_again(
    browser: Chromium,
) -> None:
    script = Island()
    config = {"messages": {"queue": {"cap": 1, "drop": "new"}}}
    async with (
        StubModelServer(script) as model,
        running_gateway(model=model.base_url, config=config) as gateway,
    ):
        page = await browser.open(address(gateway))
        await say(page, "island")
        await expect(page.locator(".answer .text")).to_have_text("A skerry is ")
        await say(page, "one")
        await expect(page.locator(".person .state")).to_have_text("Queued")
        await say(page, "two")
        await expect(page.locator(".person .problem")).to_contain_text("more than 1 messages")
        script.first.open()
        await expect(page.locator(".answer .text").last).to_have_text("echo: one")
        await page.get_by_role("button", name="Send again").click()
        await expect_texts(page, "island", WHOLE, "one", "echo: one", "two", "echo: two")
