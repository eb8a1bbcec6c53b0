"""What answers are made of, in Chromium: Markdown, code, thoughts, tools; and hostile text."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from skerry.model import message
from skerry.model.event import RunStarted, TextDelta, ThinkingDelta, ToolFinished, ToolStarted
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from skerry.store import Unit, sessions
from skerry.testing.gateway import running_gateway as running_process
from skerry.testing.model_server import StubModelServer
from tests.e2e.browser import Chromium, address, expect_online, say
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.hostile import HOSTILE

pytestmark = pytest.mark.full("Chromium")

MARKDOWN = """# Tides

Twice a **day**, see [tables](https://example.org).

```python
height = amplitude * cos(hours)  # a line that is much longer than the column of the page is wide
```

| a | b |
|--|--:|
| 1 | 2 |

مرحبا
"""
COUNT = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


async def open_page(browser: Chromium, rig: Rig) -> Page:
    page = await browser.tab()
    await page.add_init_script(COUNT)
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect_online(page)
    return page


def answer(*blocks: TextBlock | ThinkingBlock | ToolCall, usage: Usage | None = None) -> Message:
    used = usage or Usage(1200, 34, 0, 0, 1234)
    return AssistantMessage(tuple(blocks), "x", "stub", "stub-model", used, "stop", 2)


async def write(rig: Rig, *runs: Sequence[Message], names: Sequence[str] = ()) -> None:
    """Puts runs into the main conversation; `names` are their ids."""
    key = SessionKey.main()

    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, key, SessionId("id-main"), 1)
        for number, messages in enumerate(runs):
            name = names[number] if names else f"r{number}"
            tail = sessions.append(unit, session_id, tail, name, messages, number)

    await rig.store.write(work)


async def test_markdown_becomes_text_with_form(browser: Chromium, rig: Rig) -> None:
    await write(rig, [message.user("hi", 1), answer(TextBlock(MARKDOWN))])
    page = await open_page(browser, rig)
    prose = page.locator(".answer .md")
    await expect(prose.get_by_role("heading", name="Tides")).to_be_visible()
    await expect(prose.locator("strong")).to_have_text("day")
    link = prose.get_by_role("link", name="tables")
    assert "noopener" in str(await link.get_attribute("rel"))
    await expect(prose.locator("td").last).to_have_css("text-align", "right")
    assert await prose.locator("p").last.evaluate("e => getComputedStyle(e).direction") == "rtl"
    wide = "element => element.scrollWidth - element.clientWidth"
    assert await page.locator("#scroller").evaluate(wide) == 0
    assert await page.evaluate("violations") == []


async def test_lists_quotations_and_tables_begin_on_the_side_of_their_words(
    browser: Chromium, rig: Rig
) -> None:
    text = "- واحد\n- اثنان\n\n> اقتباس\n\n| א | ב |\n|--|--|\n| 1 | 2 |\n\n- one"
    await write(rig, [message.user("hi", 1), answer(TextBlock(text))])
    page = await open_page(browser, rig)
    whole = page.locator(".answer .md :is(ul, blockquote, table)")
    sides = "all => all.map(one => getComputedStyle(one).direction)"
    await expect(whole).to_have_count(4)
    assert await whole.evaluate_all(sides) == ["rtl", "rtl", "rtl", "ltr"]


async def test_code_says_its_language_and_is_copied(browser: Chromium, rig: Rig) -> None:
    await write(rig, [message.user("hi", 1), answer(TextBlock(MARKDOWN))])
    page = await open_page(browser, rig)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    code = page.locator(".code")
    await expect(code.locator(".language")).to_have_text("python")
    await code.get_by_role("button", name="Copy code").click()
    await expect(code.get_by_role("button")).to_have_text("Copied")
    assert (await page.evaluate("navigator.clipboard.readText()")).startswith("height = amplitude")


async def test_an_answer_keeps_its_form_while_it_grows(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig)
    await say(page, "hi")
    await expect(page.locator(".answer")).to_be_visible()
    (run_id,) = rig.dispatcher.runs
    rig.dispatcher.tell(run_id, RunStarted(1))
    rig.dispatcher.tell(run_id, TextDelta("# Tides\n\nA *first* paragraph.\n\nThe next is **not"))
    first = page.locator(".answer .md p").first
    await expect(first).to_have_text("A first paragraph.")
    await first.evaluate("element => { element.dataset.same = 'yes'; }")
    await expect(page.locator(".answer .md p").last).to_have_text("The next is **not")
    await expect(page.locator(".answer .tail")).to_be_hidden()
    rig.dispatcher.tell(run_id, TextDelta(" whole** yet.\n\n"))
    await expect(page.locator(".answer .md p").last).to_have_text("The next is not whole yet.")
    await expect(page.locator("[data-same]")).to_have_text("A first paragraph.")


async def test_tools_are_folded_over_their_arguments_and_results(
    browser: Chromium, rig: Rig
) -> None:
    page = await open_page(browser, rig)
    await say(page, "hi")
    await expect(page.locator(".answer")).to_be_visible()
    (run_id,) = rig.dispatcher.runs
    rig.dispatcher.tell(run_id, RunStarted(1))
    rig.dispatcher.tell(run_id, ToolStarted("c1", "read", {"path": "notes.md"}))
    tool = page.locator(".tools li")
    await expect(tool).to_have_attribute("data-state", "working")
    await tool.locator("summary").click()
    await expect(tool.locator("pre").first).to_contain_text('"path": "notes.md"')
    rig.dispatcher.tell(run_id, ToolFinished("c1", "read", is_error=True, text="No such file."))
    await expect(tool.locator("summary")).to_contain_text("(failed)")
    await expect(tool.locator("pre").last).to_have_text("No such file.")


async def test_thoughts_tools_and_tokens_are_read_from_the_transcript(
    browser: Chromium, rig: Rig
) -> None:
    call = ToolCall("c1", "read", {"path": "a.md"})
    content = (TextBlock("what is in it"),)
    result = ToolResultMessage("c1", "read", content, is_error=False, timestamp=3)
    first = answer(ThinkingBlock("First, the file."), call)
    await write(rig, [message.user("hi", 1), first, result, answer(TextBlock("Done."))])
    page = await open_page(browser, rig)
    fold = page.locator("article > .fold")
    await expect(fold.locator("summary")).to_have_text("Thoughts")
    await expect(page.locator(".thoughts")).to_be_hidden()
    await fold.locator("summary").click()
    await expect(page.locator(".thoughts")).to_have_text("First, the file.")
    await page.locator(".tools summary").click()
    await expect(page.locator(".tools pre").last).to_have_text("what is in it")
    await expect(page.locator(".cost")).to_have_text("2.4k in, 68 out")
    await expect(page.locator("#spent")).to_contain_text("2.4k in, 68 out")


async def test_hostile_text_runs_nothing_and_asks_for_nothing(browser: Chromium, rig: Rig) -> None:
    await write(
        rig, *([message.user(text, 1), answer(TextBlock(text))] for text in HOSTILE.values())
    )
    page = await open_page(browser, rig)
    await expect(page.locator(".answer").first).to_be_visible()
    await expect(page.locator(".answer .tail:visible")).to_have_count(0)
    for link in await page.locator(".md a").all():
        assert str(await link.get_attribute("href")).startswith(("http:", "https:", "mailto:"))
    forbidden = "script, img, svg, iframe, object, style, link, form, base, meta, template"
    assert await page.locator(f".text :is({forbidden}), .text [style]").count() == 0
    assert await page.evaluate("window.harmed") is None
    assert await page.evaluate("violations") == []


async def test_a_long_conversation_is_read_in_parts(browser: Chromium, rig: Rig) -> None:
    pairs = [
        [message.user(f"question {n}", n), answer(TextBlock(f"answer *{n}*"))] for n in range(1000)
    ]
    await write(rig, *pairs)
    page = await open_page(browser, rig)
    await expect(page.locator(".answer .text").last).to_have_text("answer 999")
    shown = await page.locator("article").count()
    assert shown <= 100
    scroller = page.locator("#scroller")
    await scroller.evaluate("element => { element.scrollTop = 0; }")
    text = await page.locator("article .text").first.text_content()  # also out of sight
    await page.get_by_role("button", name="Show earlier messages").click()
    await expect(page.locator("article")).not_to_have_count(shown)
    assert await page.locator("article").count() > shown
    place = "element => element.getBoundingClientRect().top"
    kept = page.locator("article").filter(has_text=text).first
    assert 0 <= await kept.evaluate(place) < 300  # the reader is left where they were


async def test_a_whole_answer_is_announced_once(browser: Chromium) -> None:
    async with StubModelServer() as model, running_process(model=model.base_url) as gateway:
        page = await browser.open(address(gateway))
        await expect(page.locator("#welcome")).to_be_visible()
        await say(page, "hi")
        await expect(page.locator("#announce")).to_have_text("echo: hi")
        assert await page.locator("#log [aria-live], #log[aria-live]").count() == 0


async def test_thoughts_grow_while_they_are_thought(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig)
    await say(page, "hi")
    await expect(page.locator(".waiting")).to_be_visible()
    (run_id,) = rig.dispatcher.runs
    rig.dispatcher.tell(run_id, RunStarted(1))
    rig.dispatcher.tell(run_id, ThinkingDelta("First, "))
    fold = page.locator("article > .fold")
    await expect(fold.locator("summary")).to_have_text("Thinking")
    await expect(page.locator(".waiting")).to_be_hidden()  # it is said once
    await fold.locator("summary").click()
    await expect(page.locator(".thoughts")).to_have_text("First, ")
    rig.dispatcher.tell(run_id, ThinkingDelta("the tide."))
    await expect(page.locator(".thoughts")).to_have_text("First, the tide.")
    rig.dispatcher.tell(run_id, TextDelta("High at noon."))
    await expect(fold.locator("summary")).to_have_text("Thoughts")
    await expect(page.locator(".thoughts")).to_be_visible()  # it stays as it was opened


async def test_nothing_jumps_when_an_answer_ends(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig)
    await say(page, "hi")
    await expect(page.locator(".answer")).to_be_visible()
    (run_id,) = rig.dispatcher.runs
    text = "Before:\n\n- one\n- **two**\n\n  more\n- three\n\n| a | b |\n|--|--|\n| 1 | 2 |"
    rig.dispatcher.tell(run_id, RunStarted(1))
    rig.dispatcher.tell(run_id, TextDelta(text))
    await expect(page.locator(".answer td").last).to_have_text("2")
    place = "element => element.getBoundingClientRect().height"
    before = await page.locator(".answer .md").evaluate(place)
    await page.locator(".answer .md > *").first.evaluate("element => { element.dataset.same = 1; }")
    await write(rig, [message.user("hi", 1), answer(TextBlock(text))], names=[run_id])
    rig.dispatcher.end(run_id, payloads=(text,))
    await expect(page.locator(".answer .cost")).to_be_visible()
    assert await page.locator(".answer .md").evaluate(place) == before
    await expect(page.locator(".answer [data-same]")).to_have_text("Before:")


async def test_an_answer_is_copied_and_a_conversation_downloaded(
    browser: Chromium, rig: Rig
) -> None:
    pairs = [[message.user(f"ask {n}", n), answer(TextBlock(f"*{n}*"))] for n in range(600)]
    await write(rig, *pairs)
    page = await open_page(browser, rig)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy answer").last.click()
    assert await page.evaluate("navigator.clipboard.readText()") == "*599*"
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="Download this conversation").click()
    saved = await waiting.value
    text = (await saved.path()).read_text()
    assert saved.suggested_filename.endswith(".md")
    assert text.count("## You") == text.count("## Answer") == 600
    assert text.index("ask 0\n") < text.index("*599*")


async def test_a_conversation_opens_at_its_end(browser: Chromium, rig: Rig) -> None:
    await write(rig, *([message.user("hi", 1), answer(TextBlock(MARKDOWN * 3))] for _ in range(20)))
    page = await open_page(browser, rig)
    await expect(page.locator(".answer td").last).to_be_visible()
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    left = "element => element.scrollHeight - element.scrollTop - element.clientHeight"
    for _ in range(3):
        await page.evaluate(frames)
        assert await page.locator("#scroller").evaluate(left) < 5
    await expect(page.locator("#latest")).to_be_hidden()
