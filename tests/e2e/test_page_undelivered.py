"""The page in Chromium shows replies that were not delivered, and sends them again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from playwright.async_api import expect

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.store import DATABASE
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import running_gateway
from tests.e2e.browser import Chromium, address, allow, expect_online
from tests.support.chaos import until

pytestmark = pytest.mark.full("Chromium")

TO = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, "ann"), "m1")


def give_up(database: Path, part: int, text: str) -> None:
    """Writes a part that the platform refused."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "INSERT INTO outbox (run_id, block, part, channel, account, destination, text, state,"
            " error, created_at, updated_at) VALUES ('r', 0, ?, ?, ?, ?, ?, 'failed',"
            " 'blocked by the platform', 1, 1)",
            (part, TO.channel, TO.account, msgspec.json.encode(TO), text),
        )
        connection.commit()


async def test_a_reply_that_was_given_up_is_on_the_page_and_is_sent_again(
    browser: Chromium, tmp_path: Path
) -> None:
    platform = FakePlatform(tmp_path / "platform")
    arguments = ["--platform", str(platform.folder)]
    async with running_gateway(home=tmp_path / "home", arguments=arguments) as gateway:
        for part, text in enumerate(("the boats are in", "the tide is out")):
            give_up(gateway.home / DATABASE, part, text)
        page = await browser.open(address(gateway))
        await expect_online(page)
        button = page.locator("#undelivered")
        await expect(button).to_contain_text("2")
        await button.click()
        panel = page.get_by_role("dialog", name="Channels")
        await expect(panel).to_contain_text("blocked by the platform")
        await panel.get_by_role("button", name="Send again: part 1").click()
        await allow(page)
        await until(lambda: [m.text for m in platform.received()] == ["the boats are in"])
        await expect(button).to_contain_text("1")
        await panel.get_by_role("button", name="Drop: part 2").click()
        await expect(panel).to_contain_text("All replies are delivered.")
        await expect(button).to_be_hidden()
        assert [message.text for message in platform.received()] == ["the boats are in"]
