"""The measured layout of the page: overlaps, overflow, and dates.

At the width of a phone and of a desk, in the light and in the dark.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from skerry.model import message
from skerry.model.message import TextBlock
from tests.e2e.browser import Chromium, allow, expect_online
from tests.e2e.test_page_text import MARKDOWN, answer, write
from tests.e2e.test_page_tools import open_page
from tests.support.gateway import TOKEN, Rig, running_gateway

pytestmark = pytest.mark.full("Chromium")

LONG = (
    "When does the tide turn at Donaudampfschifffahrtsgesellschaftskapitaensmuetze/and/so/on,"
    " please?"
)
BOXES = """
(selectors) => {
  const found = selectors.flatMap((one) => [...document.querySelectorAll(one)]);
  const seen = found.filter((one) => one.checkVisibility());
  const boxes = seen.map((one) => [one.id || one.className, one.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], place) =>
    boxes.slice(place + 1).filter(([, b]) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
      Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1,
    ).map(([other]) => `${name} lies over ${other}`));
}
"""
OUTSIDE = """
() => [...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility() && !one.closest("svg, .visually-hidden, #drawer, pre"))
  .filter((one) => getComputedStyle(one).clipPath === "none")
  .filter((one) => {
    const { left, right, width } = one.getBoundingClientRect();
    return width > 1 && (left < -1 || right > innerWidth + 1);
  })
  .map((one) => `${one.tagName} ${one.id || one.className}`)
"""
CUT = """
(selector) => [...document.querySelectorAll(selector)]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent)
"""
LINES = """
(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
}
"""
TORN = """
async ([module, first, rest]) => {
  const { Prose } = await import(module);
  const markdown = { isPlain: false, html: (text) => (text ? `<p>${text}</p>` : ""), forget() {} };
  const prose = new Prose();
  const article = document.createElement("article");
  Object.assign(article, { className: "answer" }).dataset.state = "writing";
  article.append(prose.root);
  document.getElementById("log").append(article);
  prose.show("a", first, markdown, true);
  Object.assign(markdown, { isPlain: true, html: () => undefined, want() {} });
  prose.show("a", first + rest, markdown, true);
  const all = [...article.querySelectorAll("*")];
  const cursors = all.filter((one) => getComputedStyle(one, "::after").content !== "none");
  const paragraphs = [...prose.body.children].map((one) => one.textContent);
  if (prose.tail.parentNode === prose.root) paragraphs.push(prose.tail.textContent.trim());
  return [cursors.length, paragraphs];
}
"""
"""Renders the first part as Markdown; then the gateway goes, and the rest comes as it is."""
DAY = 24 * 3600 * 1000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


@pytest.fixture(params=[(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def profile(request: pytest.FixtureRequest) -> dict[str, Any]:
    width, scheme = request.param
    return {
        "viewport": {"width": width, "height": 844},
        "color_scheme": scheme,
        "reduced_motion": "reduce",
    }


async def opened(browser: Chromium, rig: Rig, **profile: Any) -> Page:
    page = await browser.open(f"{rig.http}/#token={TOKEN}", **profile)
    await expect_online(page)
    return page


async def fits(page: Page) -> None:
    """Fail where something runs out of the screen or lies over its neighbour in the bar."""
    assert await page.evaluate(OUTSIDE) == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    bar = [".bar > :not(#signals)", "#signals > :not(.countdown)"]
    assert await page.evaluate(BOXES, bar) == []


async def test_everything_fits(browser: Chromium, rig: Rig, profile: dict[str, Any]) -> None:
    page = await opened(browser, rig, **profile)
    await expect(page.locator("#welcome")).to_be_visible()
    assert await page.locator("#welcome h2").evaluate(LINES) == 1
    await fits(page)
    await write(rig, [message.user(LONG, 1), answer(TextBlock(MARKDOWN + f"\n\n{LONG}"))])
    await page.reload()
    await expect(page.locator(".answer td").last).to_be_visible()
    await fits(page)
    title = await page.locator("#title").bounding_box()
    assert title is not None
    assert title["width"] > 120
    await page.locator("#model").click()
    await expect(page.locator("#setup-save")).to_be_visible()
    await fits(page)
    fields = ["#setup input", "#setup select", "#setup button", "#setup .help"]
    assert await page.evaluate(BOXES, fields) == []


async def test_the_panels_fit(browser: Chromium, rig: Rig, profile: dict[str, Any]) -> None:
    page = await opened(browser, rig, **profile)
    await page.keyboard.press("Alt+m")
    for name in ("Search", "Files", "Notes", "Index", "Forget"):
        await page.get_by_role("tab", name=name).click()
        await fits(page)
        assert await page.evaluate(CUT, ".memory dt, .memory button") == []


async def test_a_short_message_lies_over_no_message(
    browser: Chromium, rig: Rig, profile: dict[str, Any]
) -> None:
    await write(rig, [message.user("hello", 1), answer(TextBlock("Hello."))])
    page = await opened(browser, rig, **profile)
    await expect(page.locator("article").first).to_be_visible()
    before = await page.locator("article").first.bounding_box()
    module = f"{rig.http}/toast.js"
    for text in ("gpt-5.4-mini answered in 1.2 s.", LONG):
        await page.evaluate(
            "async ([module, text]) => (await import(module)).toast(text, 'Undo', () => {})",
            [module, text],
        )
        await expect(page.locator("#toast")).to_be_visible()
        assert await page.evaluate(BOXES, ["#toast", "article", ".bar", "#message"]) == []
        await fits(page)
        if text != LONG:
            assert await page.locator("#toast-text").evaluate(LINES) == 1
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("#toast")).to_be_hidden()
    assert await page.locator("article").first.bounding_box() == before


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "Jan 1, 2024, 12:30 AM"),
        ("America/Los_Angeles", "Dec 31, 2023, 04:30 PM"),
        ("Pacific/Auckland", "Jan 1, 2024, 01:30 PM"),
    ],
)
async def test_a_day_of_another_year_says_which_in_the_zone_of_the_reader(
    browser: Chromium, rig: Rig, zone: str, text: str
) -> None:
    at = 1_704_069_000_000  # 2024-01-01T00:30Z
    await write(rig, [message.user("happy new year", at)])
    page = await opened(browser, rig, timezone_id=zone, locale="en-US")
    await expect(page.locator("article time").first).to_have_text(text)
    module = f"{rig.http}/dom.js"
    told = "async ([module, at]) => (await import(module)).when(at)"
    assert await page.evaluate(told, [module, at]) == text.rpartition(",")[0]
    now = int(await page.evaluate("Date.now()"))
    assert await page.evaluate(told, [module, now - 3 * DAY]) == "3 d"
    ten = await page.evaluate(told, [module, now - 10 * DAY])
    has_year = await page.evaluate(
        "at => new Date(at).getFullYear() !== new Date().getFullYear()", now - 10 * DAY
    )
    assert ("," in ten) is has_year


async def test_a_provider_names_its_models_in_the_panel(browser: Chromium, rig: Rig) -> None:
    page = await opened(browser, rig)
    await page.locator("#model").click()
    service = "Another service (OpenAI-compatible)"
    await page.locator("#setup-provider").select_option(label=service)
    await page.locator("#setup-name").fill("lab")
    await page.locator("#setup-url").fill("http://127.0.0.1:9/v1")
    await page.get_by_role("button", name="List models").click()
    await allow(page)
    await expect(page.locator("#setup-models-help")).to_have_text(
        "It is away. 2 models known here: choose one in the field, or type its name."
    )
    options = page.locator("#setup-models option")
    values = "all => all.map(one => [one.value, one.textContent])"
    assert await options.evaluate_all(values) == [
        ["seeing", "Seeing, 66k tokens, images"],
        ["unknown", "Unknown"],
    ]
    await expect(page.locator("#setup-model")).to_be_focused()
    (model_setup,) = rig.models.setups
    assert (model_setup.provider, model_setup.base_url) == ("lab", "http://127.0.0.1:9/v1")
    await page.locator("#setup-provider").select_option(label="OpenAI")
    await expect(options).to_have_count(0)


@pytest.mark.parametrize(
    ("first", "rest", "paragraphs"),
    [
        ("nobody can say", " exactly when", ["nobody can say exactly when"]),
        ("nobody can say", "\n\nSo wait.", ["nobody can say", "So wait."]),
    ],
)
async def test_a_sentence_is_not_torn_when_the_gateway_goes(
    browser: Chromium, rig: Rig, first: str, rest: str, paragraphs: list[str]
) -> None:
    page = await opened(browser, rig)
    found = await page.evaluate(TORN, [f"{rig.http}/markdown.js", first, rest])
    assert found == [1, paragraphs]


async def test_dark_and_light_are_chosen_and_kept(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig, color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(colour)
    await page.get_by_text("Dark", exact=True).click()
    dark = await page.evaluate(colour)
    assert light != dark
    await page.reload()
    assert await page.evaluate(colour) == dark
    await page.get_by_text("Auto", exact=True).click()
    assert await page.evaluate(colour) == light
