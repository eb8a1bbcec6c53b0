"""The page's panel of what agents remember, in Chromium: search, browse, edit, notes, index."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Page, expect

from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.e2e.browser import Chromium, address, allow, expect_online

pytestmark = pytest.mark.full("Chromium")

LONG_TERM = "# People\n\n- The dentist is Dr. Maro in Mill Road.\n- Ana prefers tea.\n"


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayProcess]:
    async with running_gateway() as gateway:
        yield gateway


def workspace(gateway: GatewayProcess) -> Path:
    """Returns the agent's workspace, with a folder for its logs."""
    (gateway.home / "workspace" / "memory").mkdir(parents=True, exist_ok=True)
    return gateway.home / "workspace"


async def opened(browser: Chromium, gateway: GatewayProcess, tab: str = "Search") -> Page:
    """Returns a page that shows a tab of the panel."""
    page = await browser.open(address(gateway))
    await expect_online(page)
    await page.get_by_role("button", name="Memory", exact=True).click()
    await page.get_by_role("tab", name=tab).click()
    return page


async def test_its_modules_are_loaded_when_it_is_first_opened(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await browser.tab()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(address(gateway))
    await expect_online(page)
    assert not any("/memory/" in url or "setup.js" in url for url in asked)
    await page.keyboard.press("Alt+m")
    await expect(page.get_by_role("dialog", name="Memory")).to_be_visible()
    assert any(url.endswith("/memory/panel.css") for url in asked)
    await expect(page.get_by_label("Search the memory")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="Memory")).to_be_hidden()


async def test_a_hit_shows_the_reasons_for_its_rank_and_links_to_its_lines(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    (workspace(gateway) / "MEMORY.md").write_text(LONG_TERM)
    page = await opened(browser, gateway)
    await expect(page.locator(".hits")).to_contain_text("MEMORY.md for lasting facts")
    await page.get_by_label("Search the memory").fill("who is my dentist?")
    await page.keyboard.press("Enter")
    hit = page.locator(".hits > li").first
    await expect(hit.locator(".passage")).to_contain_text("Dr. Maro")
    why = hit.get_by_text("Reasons for this rank")
    with anyio.fail_after(60):  # while the index is made, words alone answer, without parts
        while not await why.is_visible():
            await page.get_by_label("Search the memory").press("Enter")
            await page.wait_for_timeout(200)
    await why.click()
    await expect(hit.locator("tr", has_text="how well its words fit")).to_be_visible()
    await hit.locator(".place").click()
    await expect(page.locator(".editor h3")).to_have_text("MEMORY.md")
    await expect(page.locator(".lines [data-marked]").nth(2)).to_contain_text("Dr. Maro")
    await page.get_by_role("tab", name="Search").click()
    await page.get_by_label("Search the memory").fill("zyzzyva")
    await page.keyboard.press("Enter")
    await expect(page.locator(".hits")).to_contain_text("No hits")


async def test_a_file_is_edited_and_nobodys_change_is_lost(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    file = workspace(gateway) / "MEMORY.md"
    file.write_text(LONG_TERM)
    page = await opened(browser, gateway, "Files")
    await page.locator(".file", has_text="MEMORY.md").click()
    await page.get_by_role("button", name="Edit").click()
    box = page.get_by_label("Text", exact=True)
    await expect(box).to_have_value(LONG_TERM)
    await box.fill("# People\n\n- Ana prefers coffee.\n")
    await page.keyboard.press("Control+s")
    await allow(page)
    await expect(page.locator(".editor .result")).to_contain_text("Saved.")
    assert file.read_text() == "# People\n\n- Ana prefers coffee.\n"
    await page.get_by_role("button", name="Edit").click()
    await box.fill("mine\n")
    file.write_text("theirs\n")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".editor .result")).to_contain_text("was changed since")
    await expect(page.locator(".theirs pre")).to_have_text("theirs\n")
    await expect(box).to_have_value("mine\n")
    assert file.read_text() == "theirs\n"
    await page.get_by_role("button", name="Overwrite it with my text").click()
    await expect(page.locator(".editor .result")).to_contain_text("Saved.")
    assert file.read_text() == "mine\n"


async def test_changes_that_are_not_saved_stay(browser: Chromium, gateway: GatewayProcess) -> None:
    (workspace(gateway) / "MEMORY.md").write_text(LONG_TERM)
    (workspace(gateway) / "memory" / "2026-11-20.md").write_text("- rain\n")
    page = await opened(browser, gateway, "Files")
    await page.locator(".file", has_text="MEMORY.md").click()
    await page.get_by_role("button", name="Edit").click()
    await page.get_by_label("Text", exact=True).fill("half a thought")
    await page.locator(".file", has_text="2026-11-20.md").click()
    await expect(page.locator(".editor .result")).to_contain_text("has changes")
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Memory", exact=True).click()
    await expect(page.get_by_label("Text", exact=True)).to_have_value("half a thought")
    await page.get_by_role("button", name="Discard").click()
    await expect(page.locator(".lines")).to_contain_text("Dr. Maro")
    await page.get_by_label("Order").select_option("By day")
    await page.locator(".file", has_text="2026-11-20.md").click()
    await expect(page.locator(".lines")).to_have_text("- rain")


async def test_an_empty_memory_is_begun_from_the_page(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await opened(browser, gateway, "Files")
    await expect(page.locator(".files")).to_contain_text("The memory is empty.")
    await page.get_by_role("button", name="Begin MEMORY.md").click()
    await page.get_by_label("Text", exact=True).fill("- Ana prefers tea.\n")
    await page.get_by_role("button", name="Save").click()
    await allow(page)
    await expect(page.locator(".file")).to_contain_text("MEMORY.md")
    assert (workspace(gateway) / "MEMORY.md").read_text() == "- Ana prefers tea.\n"


async def test_a_note_tells_whose_it_is_and_is_taken_out_again(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    page = await opened(browser, gateway, "Notes")
    await expect(page.locator(".memory-notes .notes")).to_contain_text("No notes yet.")
    await page.get_by_label("Note", exact=True).fill("<b>The</b> key hangs in the shed.")
    await page.get_by_label("Heading in MEMORY.md").fill("Boat")
    await page.keyboard.press("Enter")
    note = page.locator(".memory-notes .notes > li")
    await expect(note.locator("p")).to_have_text("<b>The</b> key hangs in the shed.")
    await expect(note).to_contain_text("written by you, at the gateway")
    await expect(note.locator(".trust")).to_have_text("trusted")
    file = workspace(gateway) / "MEMORY.md"
    assert "key hangs" in file.read_text()
    await note.get_by_role("button", name="Remove").click()
    assert "key hangs" in file.read_text(), "it asks first"
    await note.get_by_role("button", name="Remove").click()
    await expect(page.locator(".memory-notes .notes")).to_contain_text("No notes yet.")
    assert "key hangs" not in file.read_text()


async def test_the_index_tells_its_state_and_what_it_cannot_read(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    (workspace(gateway) / "MEMORY.md").write_text(LONG_TERM)
    (workspace(gateway) / "memory" / "bad.md").write_bytes(b"a\0b")
    page = await opened(browser, gateway, "Index")
    await page.get_by_role("button", name="Update the index").click()
    await expect(page.locator(".memory-state .result")).to_contain_text("unchanged")
    await expect(page.locator(".warnings")).to_contain_text("memory/bad.md")
    await expect(page.locator(".memory-state dl")).to_contain_text("builtin")


async def test_on_a_phone_the_files_and_the_text_take_turns(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    (workspace(gateway) / "MEMORY.md").write_text(LONG_TERM)
    page = await browser.open(address(gateway), viewport={"width": 360, "height": 640})
    await expect_online(page)
    await page.keyboard.press("Alt+m")
    await page.get_by_role("tab", name="Search").press("ArrowRight")
    await expect(page.get_by_role("tab", name="Files")).to_be_focused()
    await page.locator(".file").click()
    await expect(page.locator(".lines")).to_contain_text("Dr. Maro")
    await expect(page.locator(".files")).to_be_hidden()
    await page.get_by_role("button", name="All files").click()
    await expect(page.locator(".files")).to_be_visible()
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0


async def test_what_is_to_be_forgotten_is_shown_before_it_goes(
    browser: Chromium, gateway: GatewayProcess
) -> None:
    file = workspace(gateway) / "MEMORY.md"
    file.write_text("- The spare key is under the green pot.\n- Ana prefers tea.\n")
    page = await opened(browser, gateway, "Forget")
    erase = page.get_by_role("button", name="Erase permanently")
    await expect(erase).to_be_hidden()
    await page.get_by_label("Words to forget").fill("green pot")
    await page.get_by_role("button", name="Show the matches").click()
    await allow(page)
    await expect(page.locator(".memory-forget .result")).to_contain_text("1 statement in files")
    await expect(page.locator(".memory-forget li p")).to_contain_text("under the green pot")
    assert "green pot" in file.read_text()
    await erase.click()
    await expect(page.locator(".memory-forget .result")).to_contain_text("Forgotten: 1 statement")
    assert file.read_text() == "- Ana prefers tea.\n"
    await page.get_by_role("button", name="Show the matches").click()
    await expect(page.locator(".memory-forget .result")).to_contain_text("No text has these words")
