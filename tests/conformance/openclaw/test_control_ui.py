"""The pages of OpenClaw 2026.2.17 and 2026.9.6, unmodified, used in Chromium against our gateway.

They come from an origin of their own, which `allowedOrigins` names, as a user has them. Every tab
is opened and its buttons are pressed, with lists that have something. A test fails on an exception
of the page, a red box, a schema that it cannot use, and a refused request without a reason here.
"""

import os
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from playwright.async_api import Error, Locator, Page, async_playwright, expect

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.conformance.openclaw.witness import Witness, address, complaints, served
from tests.e2e.browser import ARGUMENTS

HERE: Final = Path(__file__).parent
OLD: Final = "2026.2.17"
NEW: Final = "2026.9.6"
CONFIRM: Final = {OLD: re.compile("^Confirm$"), NEW: re.compile("^Switch to ")}
TABS: Final = {
    OLD: "overview channels instances sessions usage cron agents skills nodes config debug logs"
    " chat",
    NEW: "usage sessions agents chat/main systems automations plugins dashboards dashboard nodes"
    " logs skills skills/workshop channels config debug worktrees workboard terminal tasks portals"
    " new memory-import meetings custodian apps activity settings/updates settings/talk"
    " settings/security settings/secrets settings/profile settings/plugins settings/notifications"
    " settings/model-setup settings/model-providers settings/memory settings/mcp"
    " settings/lobsterdex settings/labs settings/infrastructure settings/devices settings/device"
    " settings/connection settings/communications settings/cloud-workers settings/channels"
    " settings/automation settings/approvals settings/ai-agents settings/agents settings/advanced"
    " settings/about",
}
REFUSED: Final = {
    "": "Debug > Call was pressed with an empty method.",
    "web.login.start": "WhatsApp is spoken over its Cloud API, which shows no code (ADR 37).",
    "web.login.wait": "WhatsApp is spoken over its Cloud API, which shows no code (ADR 37).",
    "channels.logout": "There is no account that could be logged out.",
    "wizard.start": "`skerry models`, `auth` and `channels add` set things up.",
    "update.run": "An update is made by who owns the machine: `skerry update`.",
    "exec.approvals.set": "Modes of commands are keys of the configuration.",
    "system.info": "Nothing about the machine is told to a page.",
    "config.schema.lookup": "`config.schema` has the whole, and the page goes on with that.",
    "doctor.memory.status": "`memory.status` and `skerry doctor` tell of the memory.",
    "tools.github.status": "No account of GitHub is used.",
    "device.pair.setupCode": "A device asks by itself and waits; no code is made for it.",
    "diagnostics.lanes": "`status` has the lanes.",
    "worktrees.branches": "Working trees of repositories are not built.",
    "worktrees.create": "Working trees of repositories are not built.",
    "worktrees.gc": "Working trees of repositories are not built.",
    "config.patch": "Preferences of the newer page come without a base hash; it keeps them.",
}
"""Methods that may be refused, each with the reason."""
GUARDED: Final = {"config.set": "A client cannot change channels."}
"""Beginnings of messages of methods that may be refused: the form of a channel adds who may write
to the agent, which only its owner does, by command or in the file."""
RED: Final = {
    "must NOT have fewer than 1 characters": "Debug > Call was pressed with an empty method.",
}
"""What red boxes may say, each with the reason."""
LEFT: Final = {"Revoke": "It would end the page's own access."}
"""Buttons that are not pressed, each with the reason."""
MOST: Final = 60
"""Buttons that are pressed in one tab; forms of hundreds of settings repeat theirs."""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SKERRY_OPENCLAW"), reason="make conformance runs it"),
]


@dataclass(slots=True)
class Face:
    """A connected page, and the record of its frames and errors."""

    version: str
    origin: str
    page: Page
    gateway: GatewayProcess
    seen: Witness

    async def open(self, tab: str) -> None:
        """Opens a tab; what was seen before does not count."""
        self.seen.clear()
        await self.page.goto(f"{self.origin}/{tab}")
        await self.settled()

    async def settled(self) -> None:
        """Waits until everything that the page asked is answered, and it asks no more at once."""
        with anyio.move_on_after(60):
            while True:
                await self.page.wait_for_timeout(500)  # nothing tells that a page has all it wants
                if self.seen.connected() and not self.seen.waiting():
                    return
        state = f"connected: {self.seen.connected()}, not answered: {self.seen.waiting()}"
        pytest.fail(f"The page at {self.page.url} does not come to rest; {state}")

    async def content(self) -> None:
        """Fail where the page shows that something did not fit."""
        await self.settled()
        assert self.seen.errors == []
        refused = self.seen.refused(REFUSED)
        assert [one for one in refused if not one[1].startswith(GUARDED.get(one[0], " "))] == []
        known = {*RED, *(f"unknown method: {method}" for method in REFUSED if method)}
        red = [text for text in await complaints(self.page) if not any(ok in text for ok in known)]
        assert red == []


def answer(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Echo the last message's last line; one of an island is not answered to its end."""
    text = str(body["messages"][-1]["content"]).splitlines()[-1]
    return ["A long ", ReplyGate(), "answer"] if "island" in text else [f"echo: {text[-40:]}"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Lets what lives as long as a module share the event loop with its tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def face(request: pytest.FixtureRequest) -> AsyncIterator[Face]:
    """Connects the page of a version, with two agents and two conversations."""
    version: str = request.param
    pages = HERE / version / "node_modules" / "openclaw" / "dist" / "control-ui"
    async with StubModelServer(answer) as model, served(pages) as origin:
        config = {
            "gateway": {"controlUi": {"allowedOrigins": [origin]}},
            "agents": {"list": [{"id": "main", "default": True}, {"id": "second"}]},
        }
        async with (
            running_gateway(model=model.base_url, config=config) as gateway,
            async_playwright() as playwright,
        ):
            await _fill(gateway)
            browser = await playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=list(ARGUMENTS)
            )
            page = await browser.new_page(viewport={"width": 1400, "height": 900})
            page.on("dialog", lambda dialog: dialog.dismiss())
            witness = Witness()
            witness.watch(page)
            await page.goto(address(origin, gateway))
            await page.get_by_role("button", name=CONFIRM[version]).click()
            face = Face(version, origin, page, gateway, witness)
            await face.settled()
            yield face
            await browser.close()


async def _fill(gateway: GatewayProcess) -> None:
    async with GatewayClient(gateway.address) as client:
        for key in ("main", "trip"):
            sent = {"message": f"hello {key}", "sessionKey": key, "idempotencyKey": key}
            await client.request("agent", sent, expect_final=True)


@pytest.mark.parametrize(
    ("face", "tab"),
    [(version, tab) for version, tabs in TABS.items() for tab in tabs.split()],
    indirect=["face"],
)
async def test_every_tab_opens_and_its_buttons_can_be_pressed(face: Face, tab: str) -> None:
    await face.open(tab)
    await face.content()
    buttons = face.page.locator("main button:visible")
    number = 0
    while number < min(await buttons.count(), MOST):
        await _press(buttons.nth(number))
        number += 1
    await face.content()
    assert face.seen.methods()


async def _press(button: Locator) -> None:
    try:
        name = (await button.inner_text(timeout=500)).strip()
        if name not in LEFT:
            await button.click(timeout=500, no_wait_after=True)
    except Error:
        pass  # it is disabled, covered, or went with what was pressed before


@pytest.mark.parametrize("face", [OLD], indirect=True)
async def test_the_older_page_edits_and_saves_a_setting_in_its_form(face: Face) -> None:
    await face.open("config")
    await face.page.get_by_role("button", name="$schema", exact=True).click()
    await face.page.locator("main input.cfg-input:visible").first.fill(
        "https://example.test/s.json"
    )
    await face.page.get_by_role("button", name="Save", exact=True).click()
    await face.content()
    assert "config.set" in face.seen.methods()
    assert "https://example.test/s.json" in (face.gateway.home / "skerry.json").read_text()


@pytest.mark.parametrize("face", [OLD], indirect=True)
async def test_the_older_page_edits_a_file_of_an_agent(face: Face) -> None:
    await face.open("agents")
    await face.page.get_by_role("button", name="Files", exact=True).click()
    await face.page.locator("main button:visible").filter(has_text="TOOLS.md").click()
    await face.settled()
    await face.page.locator("main textarea:visible").fill("Written in the page.")
    await face.page.get_by_role("button", name="Save", exact=True).last.click()
    await face.content()
    assert "agents.files.set" in face.seen.methods()
    written = list(face.gateway.home.rglob("TOOLS.md"))
    assert "Written in the page." in [file.read_text().strip() for file in written]


@pytest.mark.parametrize("face", [OLD, NEW], indirect=True)
async def test_a_conversation_continues_stops_and_is_reset(face: Face) -> None:
    await face.open("chat?session=main" if face.version == OLD else "chat/main")
    page = face.page
    for text in ("the first", "the second"):
        await _say(page, text)
        await expect(page.get_by_text(re.compile(f"echo: .*{text}")).last).to_be_visible()
    await _say(page, "an island")
    await expect(page.get_by_text("A long").last).to_be_visible()
    await page.get_by_role("button", name=re.compile("^Stop", re.IGNORECASE)).first.click()
    await face.content()
    assert "chat.abort" in face.seen.methods()
    await _say(page, "/new")
    await face.content()
    await _say(page, "once more")
    await expect(page.get_by_text(re.compile("echo: .*once more")).last).to_be_visible()
    await expect(page.get_by_text("Not sent")).to_have_count(0)
    await face.content()


async def _say(page: Page, text: str) -> None:
    box = page.locator("textarea:visible").first
    await box.fill(text)
    await box.press("Enter")
