"""In Chromium: accounts on chat platforms, people who wait to be let in, and dead letters."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from skerry.testing.gateway import running_gateway
from skerry.testing.telegram_server import TelegramServer
from tests.e2e.browser import Chromium, address, allow, expect_online
from tests.e2e.test_page_tools import AXE, complaints
from tests.e2e.test_telegram import configured

pytestmark = pytest.mark.full("Chromium")


async def test_the_owner_lets_a_stranger_in_and_sends_a_dead_letter_again(
    browser: Chromium, tmp_path: Path
) -> None:
    async with (
        TelegramServer() as server,
        running_gateway(home=tmp_path, config=configured(server)) as gateway,
    ):
        server.say("hello", name="<b>Ada</b>")
        await server.wait_for(1)
        page = await browser.open(address(gateway))
        await expect_online(page)
        await page.get_by_role("button", name="Channels", exact=True).click()
        panel = page.get_by_role("dialog", name="Channels")
        await expect(panel).to_contain_text("Telegram default")
        await expect(panel).to_contain_text("connected")
        await expect(panel).to_contain_text("<b>Ada</b> (7) on telegram/default")
        await page.evaluate(AXE.read_text(encoding="utf-8"))
        assert await complaints(page) == []
        server.fail("sendMessage", 403, "Forbidden: bot was blocked by the user")
        await panel.get_by_role("button", name="Approve: <b>Ada</b>").click()
        await allow(page)
        await expect(panel).to_contain_text("No pairing requests.")
        await expect(panel).to_contain_text("Telegram answered 403: Forbidden")
        await panel.get_by_role("button", name="Send again").click()
        assert "My owner has approved you" in (await server.wait_for(2))[1]
        await expect(panel).to_contain_text("All replies are delivered.")
        server.say("hello again")
        assert (await server.wait_for(3))[2] == "echo: hello again"
        server.revoked = True
        await panel.get_by_role("button", name="Reconnect: Telegram default").click()
        await expect(panel).to_contain_text("needs-login", timeout=60_000)
        await expect(panel).to_contain_text("skerry channels login telegram")
        await gateway.stop()


async def test_an_account_is_connected_by_its_credentials(
    browser: Chromium, tmp_path: Path
) -> None:
    async with TelegramServer() as server:
        config = {"channels": {"telegram": {"apiRoot": server.root}}}
        async with running_gateway(home=tmp_path, config=config) as gateway:
            page = await browser.open(address(gateway))
            await expect_online(page)
            await page.get_by_role("button", name="Channels", exact=True).click()
            panel = page.get_by_role("dialog", name="Channels")
            await expect(panel).to_contain_text("No account is configured.")
            await panel.get_by_text("Add an account").click()
            await panel.get_by_label("Platform").select_option("telegram")
            await panel.get_by_label("Name of the account").fill("work")
            await panel.get_by_label("Token of the bot").fill(server.token)
            await panel.get_by_role("button", name="Connect", exact=True).click()
            await allow(page)
            await expect(panel).to_contain_text("Telegram work")
            await expect(panel).to_contain_text("@house_bot connected")
            assert server.token not in await page.content()
            await gateway.stop()


async def test_the_page_says_which_agent_answers_a_conversation(
    browser: Chromium, tmp_path: Path
) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        page = await browser.open(address(gateway))
        await expect_online(page)
        await page.get_by_role("button", name="Channels", exact=True).click()
        panel = page.get_by_role("dialog", name="Channels")
        await panel.get_by_text("Which agent answers").click()
        await panel.get_by_label("Channel").fill("telegram")
        await panel.get_by_label("Conversation").fill("group:-100")
        await panel.get_by_role("button", name="Who answers?").click()
        text = "main answers in agent:main:telegram:group:-100 (default)."
        await expect(panel).to_contain_text(text)
        await panel.get_by_label("Conversation").fill("nowhere")
        await panel.get_by_role("button", name="Who answers?").click()
        await expect(panel).to_contain_text("write KIND:ID")
        await gateway.stop()
