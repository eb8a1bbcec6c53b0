"""The page as a device: paired at once on this machine, approved from another, known again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser import Chromium, expect_online
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.wire import connected

pytestmark = pytest.mark.full("Chromium")

EXPORTED = """
() => new Promise((resolve) => {
  const request = indexedDB.open("skerry");
  request.onsuccess = () => {
    const store = request.result.transaction("identity").objectStore("identity");
    store.get("device").onsuccess = ({ target }) => resolve(target.result.privateKey.extractable);
  };
})
"""


@asynccontextmanager
async def proxied(home: Path) -> AsyncIterator[tuple[Rig, str]]:
    """Run a gateway; yields it and its address behind a proxy, which makes everybody remote."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - of a socket
        address = f"http://127.0.0.1:{port}"
        config = {"gateway": {"controlUi": {"allowedOrigins": [address]}}}
        async with running_gateway(home, config=config) as rig, anyio.create_task_group() as group:

            async def forward(client: anyio.abc.SocketStream) -> None:
                head = b""
                async with client, await anyio.connect_tcp("127.0.0.1", rig.port) as server:
                    while b"\r\n\r\n" not in head:
                        head += await client.receive()
                    line, _, rest = head.partition(b"\r\n")
                    await server.send(line + b"\r\nX-Forwarded-For: 203.0.113.9\r\n" + rest)
                    async with anyio.create_task_group() as pumps:
                        pumps.start_soon(pump, client, server)
                        await pump(server, client)
                        pumps.cancel_scope.cancel()

            group.start_soon(listener.serve, forward)
            yield rig, address
            group.cancel_scope.cancel()


async def pump(source: anyio.abc.SocketStream, sink: anyio.abc.SocketStream) -> None:
    """Pass on what comes, until one of the ends is gone."""
    try:
        async for data in source:
            await sink.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


async def approve(rig: Rig, page: Page) -> None:
    """Approve the request that the page names."""
    command = await page.locator("#pairing-command").inner_text()
    async with connected(rig.url) as owner:
        await owner.call("device.pair.approve", {"requestId": command.rpartition(" ")[2]})


async def test_on_this_machine_a_browser_is_paired_at_once_and_keeps_its_key(
    browser: Chromium, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path) as rig:
        page = await browser.open(f"{rig.http}/#token={TOKEN}")
        await expect_online(page)
        await page.reload()
        await expect_online(page)
        async with connected(rig.url) as owner:
            (device,) = (await owner.call("device.pair.list"))["paired"]
        assert (device["clientId"], device["roles"]) == ("webchat-ui", ["operator"])
        assert device["displayName"].startswith("Page in Chrome")
        assert await page.evaluate(EXPORTED) is False


async def test_from_another_machine_a_browser_waits_until_it_is_approved(
    browser: Chromium, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as (rig, address):
        page = await browser.open(f"{address}/#token={TOKEN}")
        await expect(page.get_by_role("heading", name="Waiting to be let in")).to_be_visible()
        await approve(rig, page)
        await expect_online(page)
        await page.evaluate("localStorage.removeItem('skerry.token')")
        await page.reload()
        await expect_online(page)  # by its own token


async def test_a_browser_without_keys_is_told_what_to_do(browser: Chromium, tmp_path: Path) -> None:
    async with proxied(tmp_path) as (_, address):
        page = await browser.tab()
        await page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
        await page.goto(f"{address}/#token={TOKEN}")
        await expect(page.get_by_role("heading", name="This browser has no key")).to_be_visible()
        await expect(page.locator("#tunnel")).to_contain_text("ssh -L")
