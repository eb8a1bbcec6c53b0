"""Credentials of accounts are entered and removed over the wire, and nothing beside them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.infra.channels import PLATFORMS
from skerry.model.errors import SkerryError
from skerry.testing.telegram_server import TOKEN, TelegramServer
from tests.support.whole import whole_gateway


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as made:
        yield made


@pytest.fixture
async def client(tmp_path: Path, server: TelegramServer) -> AsyncIterator[GatewayClient]:
    config = {"channels": {"telegram": {"apiRoot": server.root, "pollSeconds": 1}}}
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=config) as (_, address),
        GatewayClient(address) as made,
    ):
        yield made


async def state(client: GatewayClient, name: str, expected: str | None) -> None:
    """Waits until the account has the state; None is no account."""
    found: str | None = "?"
    with anyio.fail_after(60):
        while found != expected:
            status = await client.request("channels.status")
            rows = [row for rows in status["channelAccounts"].values() for row in rows]
            named = {f"{row['channel']}/{row['accountId']}": row["state"] for row in rows}
            found = named.get(name)


def text(tmp_path: Path) -> str:
    return (tmp_path / "home" / "skerry.json").read_text("utf-8")


async def test_a_platform_names_what_it_asks_for(client: GatewayClient) -> None:
    platforms = (await client.request("channels.platforms"))["platforms"]
    assert [row["channel"] for row in platforms] == list(PLATFORMS)
    telegram = next(row for row in platforms if row["channel"] == "telegram")
    assert [row["key"] for row in telegram["login"]] == ["botToken"]
    assert all(row["login"] for row in platforms)


@pytest.mark.parametrize(
    ("account", "after"), [("default", "needs-login"), ("work", "needs-login")]
)
async def test_credentials_connect_an_account_and_their_removal_ends_it(
    client: GatewayClient, server: TelegramServer, tmp_path: Path, account: str, after: str
) -> None:
    name = f"telegram/{account}"
    given = {"channel": "telegram", "accountId": account, "credentials": {"botToken": TOKEN}}
    await client.request("channels.login", given)
    await state(client, name, "connected")
    section: Any = json.loads(text(tmp_path))["channels"]["telegram"]
    own = section if account == "default" else section["accounts"][account]
    assert (own["botToken"], own["enabled"], section["apiRoot"]) == (TOKEN, True, server.root)
    gone = await client.request("channels.logout", {"channel": "telegram", "accountId": account})
    assert gone["cleared"] is True
    assert TOKEN not in text(tmp_path)
    await state(client, name, after)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"botToken": "${HOME}"}, "channels.telegram.botToken"),
        ({"botToken": TOKEN, "apiRoot": "https://evil.example"}, "apiRoot"),
        ({"apiRoot": "https://evil.example"}, "missing: botToken"),
    ],
    ids=["reference", "more", "less"],
)
async def test_nothing_but_credentials_is_taken(
    client: GatewayClient, tmp_path: Path, given: dict[str, str], words: str
) -> None:
    before = text(tmp_path)
    with pytest.raises(SkerryError) as refused:
        await client.request("channels.login", {"channel": "telegram", "credentials": given})
    assert words in f"{refused.value} {refused.value.remedy}"
    assert text(tmp_path) == before


@pytest.mark.parametrize("method", ["channels.login", "channels.logout"])
async def test_an_unknown_platform_is_refused_with_the_near_ones(
    client: GatewayClient, method: str
) -> None:
    more = {"credentials": {"x": "y"}} if method == "channels.login" else {}
    with pytest.raises(SkerryError, match="telegram"):
        await client.request(method, {"channel": "telegramm", **more})
