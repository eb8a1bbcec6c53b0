"""Notices of the page beside the answers: notes, withdrawn text, a gateway in trouble."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from skerry.gateway.methods.system import refresh_health
from skerry.model.event import RunStarted, TextDelta, TextEnded, TextWithdrawn
from skerry.model.ids import RunId
from skerry.model.message import TextBlock, UserMessage, notice
from tests.e2e.browser import Chromium, say, watched
from tests.e2e.test_page_text import answer, write
from tests.e2e.test_page_tools import AXE, complaints, open_page
from tests.support.gateway import Rig, running_gateway

pytestmark = pytest.mark.full("Chromium")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


@pytest.fixture
async def browser(rig: Rig, process: Browser) -> AsyncIterator[Chromium]:  # noqa: ARG001 - so it ends before the gateway
    async with watched(process) as browser:
        yield browser


async def asking(browser: Chromium, rig: Rig, **profile: Any) -> tuple[Page, RunId]:
    """Returns a page that has asked, and the run, which began."""
    page = await open_page(browser, rig, **profile)
    await say(page, "hello")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    (run_id,) = rig.dispatcher.runs
    rig.dispatcher.tell(run_id, RunStarted(1))
    return page, run_id


async def test_text_gives_way_when_another_model_answers(browser: Chromium, rig: Rig) -> None:
    page, run_id = await asking(browser, rig)
    text = page.locator(".answer .text")
    rig.dispatcher.tell(run_id, TextDelta("I look."))
    rig.dispatcher.tell(run_id, TextEnded())
    rig.dispatcher.tell(run_id, TextDelta("The first mod"))
    await expect(text).to_contain_text("The first mod")
    rig.dispatcher.tell(run_id, TextWithdrawn())
    await expect(text).to_have_text("I look.")
    rig.dispatcher.tell(run_id, TextDelta("The second answers."))
    await expect(text).to_have_text("I look.The second answers.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_notes_on_an_answer_are_below_it(browser: Chromium, rig: Rig, scheme: Any) -> None:
    page, run_id = await asking(browser, rig, color_scheme=scheme, reduced_motion="reduce")
    await write(
        rig, [UserMessage((TextBlock("hello"),), 1), answer(TextBlock("hi"))], names=[run_id]
    )
    thinks = "It thinks `low`, not `high`."
    rig.dispatcher.end(run_id, payloads=("hi",), notices=(thinks,))
    await expect(page.locator(".answer .problem")).to_have_text(thinks)
    await page.evaluate(AXE.read_text())
    assert await complaints(page) == []


async def test_a_conversation_that_was_reset_says_so_discreetly(
    browser: Chromium, rig: Rig
) -> None:
    message = notice("A new conversation. `/resume` brings the last one back.", 1)
    await write(rig, [message, UserMessage((TextBlock("hello"),), 1), answer(TextBlock("hi"))])
    page = await open_page(browser, rig)
    await expect(page.locator(".note")).to_contain_text("/resume brings the last one back.")
    await expect(page.locator(".answer")).to_have_count(1)
    await expect(page.locator(".note button")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_damaged_database_is_told_with_its_remedy(
    browser: Chromium, rig: Rig, scheme: Any
) -> None:
    rig.store.condition.damage = "page 3"
    await refresh_health(rig.context)
    page = await open_page(browser, rig, color_scheme=scheme)
    await expect(page.locator("#notice")).to_contain_text("database is damaged")
    await expect(page.locator("#notice")).to_contain_text("skerry backup restore")
    await page.evaluate(AXE.read_text())
    assert await complaints(page) == []
    rig.store.condition.damage = ""  # the page looks again by itself
    await expect(page.locator("#notice")).not_to_contain_text("damaged")
