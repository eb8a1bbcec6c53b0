"""The state of the memory on the page: search by words or meaning, waiting, read, left out."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Page, expect

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer, echo_chat
from tests.e2e.browser import Chromium, address, expect_online
from tests.unit.recall.embedding_server import embedding_server

pytestmark = pytest.mark.full("Chromium")

FACT = "The harbour opens at seven."


def configured(url: str) -> dict[str, Any]:
    """Returns a configuration with an embedding model, where every word said is indexed."""
    search = {
        "provider": "openai",
        "model": "m",
        "remote": {"baseUrl": url, "apiKey": "key"},
        "sync": {"sessions": {"deltaBytes": 1, "deltaMessages": 1}},
    }
    return {"agents": {"defaults": {"memorySearch": search}}}


def write(workspace: Path) -> None:
    """Writes files of every kind: whole, in another encoding, no text, a link."""
    folder = workspace / "memory"
    folder.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("- Ana prefers tea.\n")
    (folder / "old.md").write_bytes("Das Caf\u00e9 am Flu\u00df.\n".encode("cp1252"))
    (folder / "bad.md").write_bytes(b"a\0b")
    (folder / "vault").symlink_to(workspace.parent)


async def remembered(client: GatewayClient) -> None:
    """Says something, and waits until it is indexed."""
    params = {"sessionKey": "main", "message": FACT, "idempotencyKey": "1"}
    await client.request("agent", params, expect_final=True)
    with anyio.fail_after(60):
        while True:
            await client.request("memory.sync", {}, timeout=60)
            status = await client.request("memory.status", {})
            if {source["source"] for source in status["sources"]} == {"memory", "sessions"}:
                return


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    write(tmp_path / "workspace")
    async with (
        embedding_server() as vectors,
        StubModelServer(echo_chat) as model,
        running_gateway(
            home=tmp_path, model=model.base_url, config=configured(vectors.url)
        ) as gateway,
    ):
        async with GatewayClient(gateway.address) as client:
            await remembered(client)
        yield gateway


@pytest.fixture
async def page(browser: Chromium, gateway: GatewayProcess) -> Page:
    page = await browser.open(address(gateway))
    await expect_online(page)
    await page.get_by_role("button", name="Memory", exact=True).click()
    return page


async def test_the_index_counts_what_words_and_what_meaning_finds_and_what_waits(
    page: Page,
) -> None:
    await page.get_by_role("tab", name="Index").click()
    facts = page.locator(".memory-state dl")
    await expect(facts).to_contain_text("2, in 2 passages, 2 with a vector")
    await expect(facts).to_contain_text("1, in 1 passages, 0 with a vector")
    await expect(facts).to_contain_text("1 in conversations; computed in about")


async def test_the_index_names_files_of_another_encoding_and_those_that_are_left_out(
    page: Page,
) -> None:
    await page.get_by_role("tab", name="Index").click()
    warnings = page.locator(".warnings")
    await expect(warnings).to_contain_text("memory/old.md as Windows-1252")
    await expect(warnings).to_contain_text("memory/bad.md: it has a zero byte")
    await expect(warnings).to_contain_text("memory/vault: it is a link to")


async def test_the_list_of_files_tells_of_each_how_it_is_found_and_was_read(page: Page) -> None:
    await page.get_by_role("tab", name="Files").click()
    rows = page.locator(".files")
    old = rows.locator("[data-path='memory/old.md']")
    await expect(old).to_contain_text("by words and meaning \u00b7 read as Windows-1252")
    await expect(rows.locator("[data-path='memory/bad.md']")).to_contain_text("zero byte")
    said = rows.locator("[data-path^='sessions/']")
    await expect(said).to_contain_text("1 passage \u00b7 by words \u00b7")
    whole = rows.locator("[data-path='MEMORY.md']")
    await expect(whole).to_contain_text("by words and meaning")
    await expect(whole).not_to_contain_text("read as")


async def test_a_conversation_is_listed_by_its_title_and_the_time_it_was_written(
    page: Page,
) -> None:
    name = page.locator("#sessions li .name").first
    await expect(name).not_to_have_text(re.compile("^(agent:.*)?$"))  # the panel lists it by this
    title = await name.text_content()
    assert title
    await page.get_by_role("tab", name="Files").click()
    said = page.locator(".files [data-path^='sessions/']")
    await expect(said.locator(".name")).to_have_text(title)
    await expect(said.locator(".about")).to_have_text(re.compile(r" · (now|\d+ min)$"))


async def test_a_conversation_that_is_renamed_while_files_are_listed_has_its_new_name(
    page: Page, gateway: GatewayProcess
) -> None:
    await page.get_by_role("tab", name="Files").click()
    conversation = page.locator(".files [data-path^='sessions/']")
    await conversation.focus()
    async with GatewayClient(gateway.address) as client:
        key = "agent:main:main"
        await client.request("sessions.patch", {"key": key, "label": "Harbour times"})
    await expect(conversation.locator(".name")).to_have_text("Harbour times")
    await expect(conversation).to_be_focused()
