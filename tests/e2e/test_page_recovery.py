"""The page when the gateway dies and comes back: nothing is lost, nothing comes twice."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import pytest
from playwright.async_api import WebSocketRoute, expect

from skerry.model.message import ToolCall
from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.e2e.browser import (
    Chromium,
    address,
    expect_offline,
    expect_online,
    expect_texts,
    say,
    sent_frames,
)

pytestmark = pytest.mark.full("Chromium")


def sends(frames: list[str]) -> list[dict[str, Any]]:
    """Returns the parameters of every `chat.send` among the frames."""
    requests = [json.loads(frame) for frame in frames]
    return [request["params"] for request in requests if request["method"] == "chat.send"]


async def test_what_is_written_while_the_gateway_is_away_is_sent_once_when_it_is_back(
    browser: Chromium,
) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await say(page, "before")
        await expect_texts(page, "before", "echo: before")
        await gateway.kill()
        await expect_offline(page)
        await expect(page.get_by_role("button", name="Retry now")).to_be_visible()
        await say(page, "during")
        await say(page, "during, too")
        await expect(page.locator(".person .state")).to_have_text(["Waiting for the gateway"] * 2)
        frames = sent_frames(page)
        await gateway.start()
        expected = ("before", "echo: before", "during", "echo: during")
        await expect_texts(page, *expected, "during, too", "echo: during, too")
        assert [sent["message"] for sent in sends(frames)] == ["during", "during, too"]
        assert model.count == 3
        await page.reload()
        await expect_texts(page, *expected, "during, too", "echo: during, too")


async def test_an_answer_that_the_gateways_death_cut_off_is_given_once(browser: Chromium) -> None:
    replies: Iterator[Sequence[HttpStep]] = iter(
        [["half ", ReplyGate(), "never"], ["the whole answer"]]
    )
    async with (
        StubModelServer(lambda _: next(replies)) as model,
        running_gateway(model=model.base_url) as gateway,
    ):
        page = await browser.open(address(gateway))
        await say(page, "hello")
        await expect(page.locator(".answer .text")).to_have_text("half ")
        await gateway.kill()
        await expect_offline(page)
        await gateway.start()
        await expect_texts(page, "hello", "the whole answer")
        await page.reload()
        await expect_texts(page, "hello", "the whole answer")


def break_once(lost: str, frames: list[str]) -> Callable[[WebSocketRoute], None]:
    """Break the connection at the first `chat.send`: before its request, or before its answer.

    `frames` gets what the page sent.
    """
    broken: list[str] = []

    def between(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        async def up(message: str | bytes) -> None:
            frames.append(str(message))
            frame = json.loads(message)
            first = frame["method"] == "chat.send" and not broken
            if first:
                broken.append(frame["id"])
            if first and lost == "request":
                await route.close()
            else:
                server.send(message)

        async def down(message: str | bytes) -> None:
            if [json.loads(message).get("id")] == broken:
                await route.close()
            else:
                route.send(message)

        route.on_message(up)
        server.on_message(down)

    return between


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_message_that_was_on_its_way_when_the_connection_broke_arrives_once(
    browser: Chromium, lost: str
) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.tab()
        frames: list[str] = []
        await page.route_web_socket("**/*", break_once(lost, frames))
        await page.goto(address(gateway))
        await expect_online(page)
        await say(page, "hello")
        await expect_texts(page, "hello", "echo: hello")
        keys = [sent["idempotencyKey"] for sent in sends(frames)]
        assert len(keys) == 2 or lost == "answer"  # the transcript may tell that it arrived
        assert len(set(keys)) == 1
        assert model.count == 1


async def test_what_is_written_as_the_page_comes_keeps_its_order(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.tab()
        frames: list[str] = []
        written, sent = anyio.Event(), anyio.Event()

        def between(route: WebSocketRoute) -> None:
            server = route.connect_to_server()

            async def up(message: str | bytes) -> None:
                frames.append(str(message))
                match json.loads(message)["method"]:
                    case "connect":
                        await written.wait()
                    case "chat.history":
                        await sent.wait()
                    case "chat.send":
                        sent.set()
                server.send(message)

            route.on_message(up)

        await page.route_web_socket("**/*", between)
        await page.goto(address(gateway))
        await say(page, "first")
        written.set()
        await expect_online(page)
        await say(page, "second")
        await expect_texts(page, "first", "echo: first", "second", "echo: second")
        assert [row["message"] for row in sends(frames)][:2] == ["first", "second"]


async def test_an_unsent_message_survives_that_the_tab_is_closed(browser: Chromium) -> None:
    async with StubModelServer() as model, running_gateway(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await gateway.kill()
        await expect_offline(page)
        await say(page, "hello")
        await expect(page.locator(".person .state")).to_have_text("Waiting for the gateway")
        again = await browser.tab(beside=page)
        await page.close()
        await gateway.start()
        await again.goto(gateway.url + "/")
        await expect_texts(again, "hello", "echo: hello")
        assert model.count == 1


async def test_an_interrupted_run_goes_on_where_nothing_had_an_effect(browser: Chromium) -> None:
    read = ToolCall("call_1", "read", {"path": "AGENTS.md"})
    replies: Iterator[Sequence[HttpStep]] = iter(
        [["Let me look. ", read], ["half ", ReplyGate()], ["This time all of it."]]
    )
    async with (
        StubModelServer(lambda _: next(replies)) as model,
        running_gateway(model=model.base_url) as gateway,
    ):
        page = await browser.open(address(gateway))
        await say(page, "hello")
        await expect(page.locator(".answer .text")).to_contain_text("half")
        await expect(page.locator(".answer .tools")).to_contain_text("read AGENTS.md")
        await gateway.kill()
        await expect_offline(page)
        await gateway.start()
        await expect(page.locator(".answer .text").last).to_contain_text("This time all of it.")
        await expect(page.locator(".answer .text").first).to_contain_text("Let me look.")
        await expect(page.locator(".answer .problem")).to_have_count(0)
        assert model.count == 3


async def test_a_missed_event_is_noticed_and_made_good(browser: Chromium) -> None:
    async with running_gateway(config={"gateway": {"tickIntervalMs": 2000}}) as gateway:
        page = await browser.tab()
        routes: list[WebSocketRoute] = []
        dropped: list[str] = []

        def between(route: WebSocketRoute) -> None:
            routes.append(route)
            server = route.connect_to_server()

            def down(message: str | bytes) -> None:
                if '"state":"final"' in str(message) and not dropped:
                    dropped.append(str(message))
                else:
                    route.send(message)

            server.on_message(down)

        await page.route_web_socket("**/*", between)
        await page.goto(address(gateway))
        await expect(page.locator("#welcome")).to_be_visible()  # the transcript has been read
        await say(page, "hello")
        await expect_texts(page, "hello", "echo: hello")
        assert (len(routes), len(dropped)) == (1, 1)


async def test_a_connection_that_falls_silent_is_replaced(browser: Chromium) -> None:
    async with running_gateway(config={"gateway": {"tickIntervalMs": 500}}) as gateway:
        page = await browser.tab()
        routes: list[WebSocketRoute] = []
        silent: list[WebSocketRoute] = []

        def between(route: WebSocketRoute) -> None:
            routes.append(route)
            server = route.connect_to_server()
            server.on_message(lambda message: None if route in silent else route.send(message))

        await page.route_web_socket("**/*", between)
        await page.goto(address(gateway))
        await expect_online(page)
        silent.append(routes[0])
        await say(page, "hello")
        await expect_texts(page, "hello", "echo: hello")
        assert len(routes) > 1
