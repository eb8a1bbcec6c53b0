"""Mailboxes that are opened by a sign-in: tokens that are replaced, refused and revoked."""

import pytest
from msgspec import structs

from skerry.channels.email.adapter import EmailAdapter, open_account
from skerry.channels.email.config import EmailAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, RunId
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_host import ChannelHost, MemoryCursor, MemoryVault
from skerry.testing.mail_server import MailServer
from tests.support.oauth_server import StubOAuthServer
from tests.unit.channels.email.test_adapter import part, running


def signed_in(
    mail: MailServer, issuer: StubOAuthServer, vault: MemoryVault, refresh: str
) -> EmailAdapter:
    oauth = {"clientId": "client", "tokenUrl": issuer.token_url, "refreshToken": refresh}
    without = {key: value for key, value in mail.settings.items() if key != "password"}
    settings = EmailAccount.model_validate({**without, "oauth": oauth})
    assert settings.is_configured
    host = ChannelHost(AccountId("default"), SystemClock(), MemoryCursor(), vault=vault)
    return open_account(settings, host)


async def test_a_mailbox_is_opened_by_a_token_and_the_newest_refresh_token_is_kept() -> None:
    vault = MemoryVault()
    async with StubOAuthServer() as issuer, MailServer(tokens=issuer.access) as mail:
        _, refresh = issuer.issue()
        for number in range(2):  # as after a restart: the first refresh token counts no more
            adapter = signed_in(mail, issuer, vault, refresh)
            async with running(adapter):
                await adapter.send(structs.replace(part("hello"), run_id=RunId(f"r{number}")))
        assert [form["grant_type"] for form in issuer.forms] == ["refresh_token"] * 2
        assert not issuer.reused
        assert [one.text for one in mail.delivered] == ["hello", "hello"]
        ((_, kept),) = await vault.every("oauth")
        assert b"refresh-" not in kept
        assert mail.faults == []


async def test_a_token_that_a_server_refuses_is_replaced_at_the_next_login() -> None:
    async with StubOAuthServer() as issuer, MailServer(tokens=issuer.access) as mail:
        adapter = signed_in(mail, issuer, MemoryVault(), issuer.issue()[1])
        assert (await adapter.probe()).state is ConnectionState.CONNECTED
        issuer.access.clear()
        assert (await adapter.probe()).state is ConnectionState.NEEDS_LOGIN
        assert (await adapter.probe()).state is ConnectionState.CONNECTED
        issuer.access.clear()
        with pytest.raises(DeliveryDelayedError, match="refuses AUTH: 535"):
            await adapter.send(part("hello"))
        await adapter.send(part("hello"))
        assert mail.faults == []


async def test_a_revoked_sign_in_says_what_helps_and_a_new_one_counts() -> None:
    vault = MemoryVault()
    async with StubOAuthServer() as issuer, MailServer(tokens=issuer.access) as mail:
        refresh = issuer.issue()[1]
        adapter = signed_in(mail, issuer, vault, refresh)
        assert (await adapter.probe()).state is ConnectionState.CONNECTED
        issuer.revoke()
        issuer.access.clear()
        assert (await adapter.probe()).state is ConnectionState.NEEDS_LOGIN
        state = await adapter.probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "invalid_grant" in state.message
        assert "skerry channels login email" in state.remedy
        again = signed_in(mail, issuer, vault, issuer.issue()[1])
        assert (await again.probe()).state is ConnectionState.CONNECTED


async def test_a_server_without_the_mechanism_is_named() -> None:
    async with StubOAuthServer() as issuer, MailServer() as mail:
        adapter = signed_in(mail, issuer, MemoryVault(), issuer.issue()[1])
        state = await adapter.probe()
        assert (state.state, "XOAUTH2" in state.message) == (ConnectionState.NEEDS_LOGIN, True)
