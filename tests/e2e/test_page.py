"""The page in Chromium: conversations, stopping, its contents and its layout."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import pytest
from playwright.async_api import expect

from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StatusReply, StubModelServer, echo_chat
from tests.e2e.browser import (
    Chromium,
    address,
    allow,
    expect_online,
    expect_texts,
    say,
    sent_frames,
)

pytestmark = pytest.mark.full("Chromium")

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script> & "quotes"'


def answering(**replies: Sequence[HttpStep]) -> Callable[[dict[str, Any]], Sequence[HttpStep]]:
    """Returns a script that answers a message of one known word, and echoes all others."""

    def script(body: dict[str, Any]) -> Sequence[HttpStep]:
        steps = replies.get(body["messages"][-1]["content"])
        return echo_chat(body) if steps is None else steps

    return script


@pytest.mark.requirement("webchat-static-ui")
@pytest.mark.requirement("gateway-channel-set")
async def test_an_answer_appears_as_it_is_written_and_survives_a_reload(browser: Chromium) -> None:
    gate = ReplyGate()
    script = answering(island=["A skerry is ", gate, "a small island."])
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        answer = page.locator(".answer .text")
        await expect(answer).to_have_text("A skerry is ")
        await expect(page.locator(".answer")).to_have_attribute("data-state", "writing")
        gate.open()
        await expect_texts(page, "island", "A skerry is a small island.")
        await page.reload()
        await expect_texts(page, "island", "A skerry is a small island.")


async def test_a_page_that_is_reloaded_in_the_middle_of_an_answer_shows_all_of_it(
    browser: Chromium,
) -> None:
    gate = ReplyGate()
    script = answering(island=["A skerry is ", gate, "a small island."])
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        await expect(page.locator(".answer .text")).to_have_text("A skerry is ")
        await page.reload()
        await expect(page.locator("article .text")).to_have_text(["island", "A skerry is "])
        gate.open()
        await expect_texts(page, "island", "A skerry is a small island.")


async def test_stop_ends_the_answer_and_keeps_what_was_said(browser: Chromium) -> None:
    script = answering(island=["A skerry is ", ReplyGate(), "a small island."])
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "island")
        await expect(page.locator(".answer .text")).to_have_text("A skerry is ")
        await page.get_by_role("button", name="Stop").click()
        await expect_texts(page, "island", "A skerry is ")
        await expect(page.locator(".answer .state")).to_have_text("Stopped")
        await page.reload()
        await expect_texts(page, "island", "A skerry is ")
        await expect(page.locator(".answer .state")).to_have_text("Stopped")
        await say(page, "go on")
        await expect_texts(page, "island", "A skerry is ", "go on", "echo: go on")


async def test_a_message_written_during_an_answer_waits_for_its_turn(browser: Chromium) -> None:
    gate = ReplyGate()
    script = answering(first=["one ", gate, "two"])
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "first")
        await expect(page.locator(".answer .text")).to_have_text("one ")
        await say(page, "second")
        await expect(page.locator(".person .state")).to_have_text("Queued")
        gate.open()
        await expect_texts(page, "first", "one two", "second", "echo: second")


async def test_two_tabs_show_the_same(browser: Chromium) -> None:
    gate = ReplyGate()
    script = answering(island=["A skerry is ", gate, "a small island."])
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)  # It has kept the token that the second tab starts with.
        two = await browser.open(gateway.url + "/", beside=page)
        await expect_online(two)
        await say(page, "island")
        for tab in (page, two):
            await expect(tab.locator("article .text")).to_have_text(["island", "A skerry is "])
        gate.open()
        for tab in (page, two):
            await expect_texts(tab, "island", "A skerry is a small island.")
        await say(two, "and back")
        for tab in (page, two):
            await expect(tab.locator("article .text").last).to_have_text("echo: and back")
            await expect(tab.locator("article")).to_have_count(4)


async def test_a_model_that_fails_says_why_and_can_be_asked_again(browser: Chromium) -> None:
    replies: Iterator[Sequence[HttpStep]] = iter([[StatusReply(401)], ["Now it works."]])
    async with (
        StubModelServer(lambda _: next(replies)) as model,
        running_gateway(model=model.base_url) as gateway,
    ):
        page = await browser.tab()
        frames = sent_frames(page)
        await page.goto(address(gateway))
        await say(page, "hello")
        await expect(page.locator(".answer .state")).to_have_text("No answer")
        await expect(page.locator(".answer .problem")).not_to_be_empty()
        await expect(page.locator("#model")).to_have_attribute("data-state", "failing")
        await page.get_by_role("button", name="Change the key").click()
        await expect(page.get_by_role("dialog", name="Model")).to_be_visible()
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Try again").click()
        await expect_texts(page, "hello", "", "hello", "Now it works.")
        await expect(page.locator("#model")).to_have_attribute("data-state", "ready")
        await expect(page.get_by_role("button", name="Try again")).to_have_count(0)
        assert sum('"chat.retry"' in frame for frame in frames) == 1


async def test_hostile_text_is_shown_as_text(browser: Chromium) -> None:
    script = answering(**{HOSTILE: [HOSTILE]})
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, HOSTILE)
        await expect_texts(page, HOSTILE, HOSTILE)
        assert await page.locator("#log :is(img, script)").count() == 0


async def test_the_token_leaves_the_address_at_once_and_serves_the_next_visit(
    browser: Chromium,
) -> None:
    async with running_gateway() as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        assert page.url == gateway.url + "/"
        await page.goto(gateway.url + "/")
        await expect_online(page)


async def test_without_the_right_token_the_page_says_where_to_find_it(browser: Chromium) -> None:
    async with running_gateway() as gateway:
        page = await browser.open(gateway.url + "/")
        await expect(page.locator("#asking").get_by_text("make start")).to_be_visible()
        field, reason = page.get_by_label("Token"), page.get_by_role("alert").first
        await field.fill("0" * 48)
        await page.get_by_role("button", name="Open").click()
        await expect(reason).to_have_text("The gateway did not accept the token.")
        await field.fill(f" {gateway.token} ")
        await page.keyboard.press("Enter")
        await expect_online(page)
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()


async def test_a_gateway_that_wants_no_token_is_not_asked_for_one(browser: Chromium) -> None:
    async with running_gateway(config={"gateway": {"auth": {"mode": "none"}}}) as gateway:
        page = await browser.open(gateway.url + "/")
        await expect_online(page)
        await say(page, "hello")
        await expect_texts(page, "hello", "echo: hello")


async def test_an_empty_conversation_offers_a_beginning(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect(page.get_by_text("skerry chat")).to_be_visible()
        examples = page.locator("#examples").get_by_role("button")
        await expect(examples).to_have_count(3)
        text = await examples.first.inner_text()
        await examples.first.click()
        await expect_texts(page, text, f"echo: {text}")
        await expect(examples.first).to_be_hidden()


async def test_shift_enter_begins_a_line_and_a_draft_survives_a_reload(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.keyboard.type("one")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("  two")
        await page.reload()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("one\n  two")
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect_texts(page, "one\n  two", "echo: one\n  two")
        shown = page.locator(".person .text")
        assert await shown.evaluate("element => element.innerText") == "one\n  two"


async def test_another_model_is_entered_on_the_page(browser: Chromium) -> None:
    async with (
        StubModelServer([["from the first"]]) as first,
        StubModelServer([["ready"], ["from the second"]]) as second,
        running_gateway(model=first.base_url) as gateway,
    ):
        page = await browser.open(address(gateway))
        await say(page, "hello")
        await expect_texts(page, "hello", "from the first")
        await page.locator("#model").click()
        await page.get_by_label("Provider", exact=True).select_option(
            "Another service (OpenAI-compatible)"
        )
        await page.get_by_label("Name of the provider").fill("lab")
        await page.get_by_label("Address").fill(second.base_url)
        await page.get_by_label("API key").fill("sk-secret")
        await page.get_by_role("combobox", name="Model", exact=True).fill("bright")
        await page.get_by_role("button", name="Use this model").click()
        await allow(page)
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await expect(page.locator("#toast-text")).to_contain_text("answered in")
        await expect(page.locator("#model")).to_contain_text("bright")
        await say(page, "and you?")
        await expect_texts(page, "hello", "from the first", "and you?", "from the second")
        kept = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert "sk-secret" not in kept + await page.content()
        assert second.requests[-1].headers["authorization"] == "Bearer sk-secret"


async def test_a_wrong_key_is_told_and_saved_only_when_the_person_insists(
    browser: Chromium,
) -> None:
    async with (
        StubModelServer() as first,
        StubModelServer(lambda _: [StatusReply(401)]) as second,
        running_gateway(model=first.base_url) as gateway,
    ):
        page = await browser.open(address(gateway))
        await page.locator("#model").click()
        panel = page.get_by_role("dialog", name="Model")
        await panel.get_by_label("Provider", exact=True).select_option(
            "Another service (OpenAI-compatible)"
        )
        await panel.get_by_label("Name of the provider").fill("lab")
        await panel.get_by_label("Address").fill(second.base_url)
        await panel.get_by_label("API key").fill("sk-wrong")
        await panel.get_by_role("combobox", name="Model", exact=True).fill("bright")
        await panel.get_by_role("button", name="Use this model").click()
        await allow(page)
        await expect(panel.get_by_role("alert")).to_contain_text("Nothing was saved.")
        assert "lab" not in (gateway.home / "skerry.json").read_text()
        await panel.get_by_role("button", name="Use it anyway").click()
        await expect(panel).to_be_hidden()
        assert "lab" in (gateway.home / "skerry.json").read_text()
        assert len(second.requests) == 1


async def test_a_model_that_cannot_be_used_is_refused_in_the_panel(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await page.locator("#model").click()
        panel = page.get_by_role("dialog", name="Model")
        await panel.get_by_label("Provider", exact=True).select_option("Ollama, on this machine")
        await panel.get_by_label("Address").fill("ftp://127.0.0.1/v1")
        await panel.get_by_role("combobox", name="Model", exact=True).fill("any")
        await panel.get_by_role("button", name="Use this model").click()
        await allow(page)
        await expect(panel.get_by_role("alert")).to_contain_text("baseUrl")
        await panel.get_by_role("button", name="Close").click()
        await say(page, "hello")
        await expect_texts(page, "hello", "echo: hello")


async def test_without_any_model_the_page_opens_and_says_what_to_do(browser: Chromium) -> None:
    config = {
        "models": {"embedded": {"file": "/nowhere/model.gguf"}},
        "agents": {"defaults": {"model": "embedded/model"}},
    }
    async with (
        StubModelServer() as model,
        running_gateway(config=config, arguments=["--model", "configured"]) as gateway,
    ):
        page = await browser.open(address(gateway))
        await expect(page.locator("#model-text")).to_have_text("No model")
        await say(page, "hello")
        await expect(page.locator(".answer")).to_contain_text("No answer")
        await page.get_by_role("button", name="Set up a model").click()
        panel = page.get_by_role("dialog", name="Model")
        await panel.get_by_label("Provider", exact=True).select_option("Ollama, on this machine")
        await panel.get_by_label("Address").fill(model.base_url)
        await panel.get_by_role("combobox", name="Model", exact=True).fill("any")
        await panel.get_by_role("button", name="Use this model").click()
        await allow(page)
        await expect(panel).to_be_hidden()
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator(".answer .text").last).to_have_text("echo: hello")


async def test_a_reader_who_scrolled_up_is_left_there(browser: Chromium) -> None:
    gate = ReplyGate()
    script = answering(long=["line\n" * 80, gate, "line\n" * 80, "end"])
    async with StubModelServer(script) as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "long")
        await expect(page.locator(".answer .text")).to_contain_text("line")
        scroller = page.locator("#scroller")
        await scroller.evaluate("element => { element.scrollTop = 100; }")
        await expect(page.get_by_role("button", name="Newest message")).to_be_visible()
        gate.open()
        await expect(page.locator(".answer .text")).to_contain_text("end")
        assert await scroller.evaluate("element => element.scrollTop") == 100
        await page.get_by_role("button", name="Newest message").click()
        left = "element => element.scrollHeight - element.scrollTop - element.clientHeight"
        assert await scroller.evaluate(left) < 5


async def test_a_phone_needs_no_sideways_scrolling(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        phone = {"width": 360, "height": 640}
        page = await browser.open(address(gateway), viewport=phone)
        await say(page, "W" * 400)
        await expect_texts(page, "W" * 400, "echo: " + "W" * 400)
        for element in ("html", "#scroller", ".bar"):
            wide = "element => element.scrollWidth - element.clientWidth"
            assert await page.locator(element).evaluate(wide) == 0


async def test_the_page_follows_the_systems_light_or_dark(browser: Chromium) -> None:
    async with running_gateway() as gateway:
        brightness = {}
        for scheme in ("light", "dark"):
            page = await browser.open(address(gateway), color_scheme=scheme)
            color = await page.locator("body").evaluate(
                "element => getComputedStyle(element).backgroundColor"
            )
            brightness[scheme] = sum(int(part) for part in re.findall(r"\d+", color)[:3])
        assert brightness["light"] > 600
        assert brightness["dark"] < 200


async def test_the_whole_page_is_reached_with_the_keyboard(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect(page.locator("#model")).to_be_visible()
        await page.locator("body").evaluate("() => document.activeElement.blur()")
        reached = set()
        for _ in range(30):
            await page.keyboard.press("Tab")
            reached.add(await page.evaluate("document.activeElement.id"))
        assert {"model", "scroller", "message"} <= reached
        await page.locator("#model").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog", name="Model")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog", name="Model")).to_be_hidden()
        await expect(page.locator("#model")).to_be_focused()


async def test_the_page_asks_as_the_protocol_says(browser: Chromium) -> None:
    async with running_gateway() as gateway:
        page = await browser.tab()
        frames = sent_frames(page)
        await page.goto(address(gateway))
        await expect_online(page)
        with anyio.fail_after(60):
            while not any('"chat.history"' in frame for frame in frames):
                await page.wait_for_timeout(20)
        assert '"method":"connect"' in frames[0]
        assert '"id":"webchat-ui"' in frames[0]
