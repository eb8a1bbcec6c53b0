"""A conversation in Microsoft's playground of bots, run where nobody else has a network.

The playground plays Teams in a page, and is no work of ours. It signs nothing without an account
of Azure, so its requests pass a server here that gives each a token. It listens on all addresses:
`python -m tests.support.playground` runs in a network namespace of its own.
"""

import os
import shutil
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import httpx2
from playwright.async_api import Page, async_playwright, expect

from skerry.testing.gateway import running_gateway
from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from skerry.testing.teams_server import APP, ISSUER, SECRET
from skerry.testing.token_issuer import jwk, token
from tests.e2e.browser import ARGUMENTS

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = ROOT / "tests/conformance/teams/node_modules/.bin/agentsplayground"
PORT: Final = 21518
HERE: Final = f"http://localhost:{PORT}"


class Signer:
    """Gives the playground's requests a token, and publishes its key."""

    def __init__(self) -> None:
        self.url = ""
        self.bot = ""
        self.answers: list[int] = []

    async def handle(self, request: ServedRequest) -> ServedResponse:
        """Answers the playground, or the bot."""
        if request.method == "HEAD":  # to see whether the bot is there
            return ServedResponse()
        match request.path:
            case "/metadata":
                return ServedResponse.of({"issuer": ISSUER, "jwks_uri": f"{self.url}/keys"})
            case "/keys":
                return ServedResponse.of({"keys": [jwk(endorsements=["msteams"])]})
            case "/api/messages":
                return await self._pass_on(request)
        return ServedResponse.of({"access_token": "of nobody", "expires_in": 3600})

    async def _pass_on(self, request: ServedRequest) -> ServedResponse:
        service = request.json["serviceUrl"]
        claims = {"iss": ISSUER, "aud": APP, "serviceurl": service}
        headers = {"authorization": f"Bearer {token(claims)}"}
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.post(self.bot, content=request.body, headers=headers)
        self.answers.append(answer.status_code)
        return ServedResponse(answer.content, answer.status_code)


async def main() -> None:
    """Holds the conversation; raises where it does not go as it should."""
    async with AsyncExitStack() as stack:
        signer = Signer()
        signer.url = await stack.enter_async_context(serve(signer.handle))
        home = Path(stack.enter_context(TemporaryDirectory()))
        gateway = await stack.enter_async_context(
            running_gateway(home=home, config=_config(signer.url))
        )
        signer.bot = f"{gateway.url}/channels/msteams/default"
        command = [str(PROGRAM), "-e", f"{signer.url}/api/messages", "-c", "msteams"]
        process = stack.enter_context(
            subprocess.Popen(  # noqa: ASYNC220 - it only begins
                [*command, "-p", str(PORT), "--disable-telemetry"],
                env=os.environ | {"BROWSER": "none", "HOME": str(home)},
                cwd=home,
                stdout=subprocess.DEVNULL,
            )
        )
        stack.callback(process.kill)
        await _ready()
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(ARGUMENTS)
        )
        stack.push_async_callback(browser.close)
        await _converse(await browser.new_page())
        assert set(signer.answers) == {200}, signer.answers


def _config(url: str) -> dict[str, Any]:
    account = {"appId": APP, "appPassword": SECRET, "metadataUrl": f"{url}/metadata"}
    roots = {"loginRoot": url, "serviceRoots": [f"{HERE}/_connector"]}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"msteams": account | roots | access}}


async def _ready() -> None:
    with anyio.fail_after(120):
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            while True:
                try:
                    await client.get(HERE)
                except httpx2.HTTPError:
                    await anyio.sleep(0.2)
                else:
                    return


async def _converse(page: Page) -> None:
    await page.goto(HERE)
    box = page.get_by_role("textbox").first
    await box.fill("hello **bot**")
    await box.press("Enter")
    await expect(page.get_by_text("echo: hello").first).to_be_visible(timeout=60_000)
    await expect(page.locator("strong, b").get_by_text("bot", exact=True).first).to_be_visible()


if __name__ == "__main__":
    anyio.run(main)
