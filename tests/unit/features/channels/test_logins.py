"""Logins in a browser and on a phone are started over the wire, end with it, and enter the rest."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from skerry.client.client import GatewayClient
from skerry.features.channels.logins import MAX_LOGINS
from skerry.hooks.hooks import Hooks
from skerry.infra.http import HttpClient
from skerry.model.errors import SkerryError
from skerry.testing.signal_server import NUMBER, SignalServer
from tests.support.oauth_server import StubOAuthServer
from tests.support.whole import whole_gateway

START, WAIT = "channels.login.start", "channels.login.wait"


@asynccontextmanager
async def client_of(tmp_path: Path, channels: dict[str, Any]) -> AsyncIterator[GatewayClient]:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks(), config={"channels": channels}) as (_, address),
        GatewayClient(address) as client,
    ):
        yield client


@pytest.fixture
async def issuer() -> AsyncIterator[StubOAuthServer]:
    async with StubOAuthServer() as server:
        yield server


def mailbox(issuer: StubOAuthServer, **more: Any) -> dict[str, Any]:
    urls = {"authorizeUrl": issuer.authorize_url, "tokenUrl": issuer.token_url}
    oauth = {**urls, "clientSecret": "old", **more}
    return {"email": {"enabled": False, "address": "house@example.org", "oauth": oauth}}


def section(tmp_path: Path, channel: str) -> Any:
    return json.loads((tmp_path / "home" / "skerry.json").read_text("utf-8"))["channels"][channel]


async def failure(client: GatewayClient, method: str, **params: Any) -> str:
    with pytest.raises(SkerryError) as refused:
        await client.request(method, params)
    return f"{refused.value} {refused.value.remedy}"


async def test_platforms_name_the_logins_that_they_have(tmp_path: Path) -> None:
    async with client_of(tmp_path, {}) as client:
        rows = (await client.request("channels.platforms"))["platforms"]
        kinds = {row["channel"]: [one["kind"] for one in row["elsewhere"]] for row in rows}
    assert (kinds["email"], kinds["signal"], kinds["telegram"]) == (["oauth"], ["qr"], [])


@pytest.mark.parametrize("bridge", ["daemon", "rest"])
async def test_a_phone_that_reads_the_code_connects_the_number(tmp_path: Path, bridge: str) -> None:
    async with SignalServer(accounts=[]) as server:
        config = {"signal": {"apiRoot": server.root, "bridge": bridge}}
        async with client_of(tmp_path, config) as client:
            begun = await client.request(START, {"channel": "signal", "kind": "qr"})
            assert begun["uri"] == server.link_uri
            assert begun["image"].startswith("data:image/svg+xml")
            waiting = await client.request(WAIT, {"id": begun["id"], "timeoutMs": 0})
            assert waiting == {"status": "waiting"}
            server.agree(NUMBER)
            payload = await client.request(WAIT, {"id": begun["id"]})
            assert (payload["status"], payload["accountId"]) == ("done", "default")
            assert "Unknown login id" in await failure(client, WAIT, id=begun["id"])
    stored = section(tmp_path, "signal")
    assert (stored["number"], stored["enabled"], stored["apiRoot"]) == (NUMBER, True, server.root)


@pytest.mark.parametrize("way", ["browser", "paste"])
async def test_a_sign_in_enters_the_refresh_token_alone(
    tmp_path: Path, issuer: StubOAuthServer, way: str
) -> None:
    async with client_of(tmp_path, mailbox(issuer)) as client, HttpClient() as http:
        given = {"channel": "email", "kind": "oauth", "settings": {"clientId": "client"}}
        begun = await client.request(START, given)
        back = issuer.approve(begun["url"])
        if way == "paste":
            await client.request("channels.login.answer", {"id": begun["id"], "answer": back})
        else:
            assert (await http.send(httpx2.Request("GET", back))).status_code == 200
        payload = await client.request(WAIT, {"id": begun["id"]})
        assert payload == {"status": "done", "channel": "email", "accountId": "default", "ok": True}
    stored = section(tmp_path, "email")["oauth"]
    assert stored["refreshToken"].startswith("refresh-")
    assert stored["clientId"] == "client"
    # The secret belonged to another application.
    assert "clientSecret" not in stored
    assert "client_secret" not in issuer.forms[-1]


async def test_an_address_of_another_sign_in_enters_nothing(
    tmp_path: Path, issuer: StubOAuthServer
) -> None:
    async with client_of(tmp_path, mailbox(issuer, clientId="client")) as client:
        ask = {"channel": "email", "kind": "oauth"}
        mine, other = [await client.request(START, ask) for _ in range(2)]
        answer = {"id": mine["id"], "answer": issuer.approve(other["url"])}
        await client.request("channels.login.answer", answer)
        text = await failure(client, WAIT, id=mine["id"])
        assert "another sign-in" in text
        assert "Start the login again" in text
    assert "refreshToken" not in section(tmp_path, "email")["oauth"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"channel": "telegram", "kind": "oauth"}, "Telegram has no login of the kind 'oauth'"),
        ({"channel": "emial", "kind": "oauth"}, "Did you mean 'email'"),
        ({"channel": "email", "kind": "oauth"}, "id of an application"),
        ({"channel": "email", "kind": "oauth", "settings": {"tokenUrl": "x"}}, "tokenUrl"),
        ({"channel": "email", "kind": "oauth", "settings": {"provider": "x"}}, "oauth.provider"),
        ({"channel": "signal", "kind": "qr"}, "apiRoot"),
    ],
    ids=["platform", "spelling", "client", "address", "provider", "unreachable"],
)
async def test_a_login_that_cannot_start_says_why(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    async with client_of(tmp_path, {"signal": {"apiRoot": "http://127.0.0.1:9"}}) as client:
        assert words in await failure(client, START, **fields)


async def test_logins_are_few_and_a_cancelled_one_makes_room(
    tmp_path: Path, issuer: StubOAuthServer
) -> None:
    async with client_of(tmp_path, mailbox(issuer, clientId="client")) as client:
        ask = {"channel": "email", "kind": "oauth"}
        begun = [await client.request(START, ask) for _ in range(MAX_LOGINS)]
        assert "Finish or cancel" in await failure(client, START, **ask)
        await client.request("channels.login.cancel", {"id": begun[0]["id"]})
        assert "cancelled" in await failure(client, WAIT, id=begun[0]["id"])
        assert (await client.request(START, ask))["url"]


async def test_a_login_ends_with_its_client(tmp_path: Path, issuer: StubOAuthServer) -> None:
    config = {"channels": mailbox(issuer, clientId="client")}
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=config) as (app, address),
        GatewayClient(address) as other,
    ):
        async with GatewayClient(address) as client:
            begun = await client.request(START, {"channel": "email", "kind": "oauth"})
        with anyio.fail_after(60):
            assert "login" in await failure(other, WAIT, id=begun["id"])
        assert app.context.logins == {}
        back = httpx2.Request("GET", issuer.approve(begun["url"]))
        async with HttpClient() as http:
            with pytest.raises((httpx2.HTTPError, SkerryError)):
                await http.send(back)


async def test_only_administrators_start_logins(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        GatewayClient(address, scopes=["operator.read", "operator.write"]) as client,
    ):
        for method in (START, WAIT, "channels.login.answer", "channels.login.cancel"):
            assert "missing scope: operator.admin" in await failure(client, method, id="x")
