"""Takes the pictures of the page in docs/images: the real gateway and page, with a scripted model.

Needs Chromium. Run it as `python -m scripts.pictures` after a change of the page's looks.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import anyio
from PIL import Image
from playwright.async_api import Browser, Page, async_playwright, expect

from skerry.client.client import GatewayClient
from skerry.model.message import ThinkingBlock, ToolCall
from skerry.testing.gateway import model_config, running_gateway
from skerry.testing.model_server import HttpStep, StubModelServer
from skerry.testing.telegram_server import TelegramServer
from tests.support.relayer_process import made, served

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
NOTES: Final = "High water Lerwick: 04:12, 16:38\nRange: 2.1 m\nBoat leaves: 15:30\n"
OTHER: Final = ("What is a skerry?",)
QUESTIONS: Final = (
    "When can we land tomorrow? My notes are in tides.md",
    "Write a function for the height at any hour",
)
SKERRY: Final = "A *skerry* is a small rocky island, often covered at high water."
LANDING: Final = """Land **before 15:00**. The rock stands free from two hours after high water:

| When | Height | What to do |
|:--|--:|:--|
| 04:12 | 2.1 m | high water, nothing to land on |
| 10:25 | 0.0 m | low water, the best landing |
| 15:30 | 1.9 m | the boat leaves |
"""
HEIGHT: Final = '''A cosine is close enough for a day:

```python
from math import cos, tau

def height(hours: float, range_m: float = 2.1) -> float:
    """Metres over low water, so many hours after high water."""
    return range_m / 2 * (1 + cos(tau * hours / 12.42))
```

`height(6.21)` is 0: low water.
'''


CORRECT: Final = "The boat leaves at 15:15 now. Correct my notes and check them"
CHECK: Final = "sh check.sh tides.md"
CHECKS: Final = """echo "checking $1"
for line in tide range boat; do echo "  $line: in order"; sleep 0.3; done
echo "3 lines, 0 problems"
"""
CORRECTED: Final = "Done: the boat leaves at **15:15**, and the check finds no problem."
PUBLISH: Final = "Publish the notes for the others"
PUSH: Final = "git add tides.md && git commit -m 'Boat at 15:15' && git push origin main"
WORK: Final[Mapping[str, Sequence[HttpStep]]] = {
    CORRECT: (
        ToolCall("c1", "edit", {"path": "tides.md", "oldText": "15:30", "newText": "15:15"}),
        ToolCall("c2", "exec", {"command": CHECK}),
        CORRECTED,
    ),
    PUBLISH: (ToolCall("c3", "exec", {"command": PUSH}), "Published."),
}
"""Questions that need tools, each with the steps of its answer."""


JOBS: Final = (
    (
        "Morning",
        {"kind": "cron", "expr": "0 7 * * 1-5", "tz": "Europe/London"},
        "What is on today, and what is the weather at the landing?",
    ),
    ("Tides", {"kind": "every", "everyMs": 6 * 3_600_000}, "Tell me when the tide turns."),
)


def script(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Answers the questions; some need tools first."""
    messages = body["messages"]
    positions = [position for position, message in enumerate(messages) if message["role"] == "user"]
    prompt = str(messages[positions[-1]]["content"])
    for question, steps in WORK.items():
        if question in prompt:
            return [steps[sum(message["role"] == "tool" for message in messages[positions[-1] :])]]
    if "notes" in prompt and messages[-1]["role"] != "tool":
        return [
            ThinkingBlock("The notes come first."),
            ToolCall("c1", "read", {"path": "tides.md"}),
        ]
    return [next(text for part, text in ANSWERS.items() if part in prompt)]


ANSWERS: Final = {"skerry": SKERRY, "notes": LANDING, "function": HEIGHT}


FACTS: Final = (
    "User's boat leaves from the north pier at 15:15",
    "User prefers landing two hours after high water",
    "User keeps the tide tables of Lerwick",
)


MODEL: Final = ("--model", "configured")


def config(base_url: str) -> dict[str, Any]:
    """Returns the configuration of a gateway whose model has a name to be seen."""
    whole = model_config(base_url)
    listed = [{"id": "stub", "name": "Small model", "input": ["text", "image"]}]
    whole["models"]["providers"]["test"]["models"] = listed
    return whole


async def take(browser: Browser, scheme: Literal["light", "dark"], file: Path) -> None:
    """Holds the conversation and takes its picture."""
    async with (
        StubModelServer(script) as model,
        running_gateway(config=config(model.base_url), arguments=MODEL) as gateway,
    ):
        workspace = gateway.home / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "tides.md").write_text(NOTES)
        page = await browser.new_page(
            color_scheme=scheme,
            viewport={"width": 1200, "height": 860},
            device_scale_factor=1.5,
        )
        await page.goto(f"{gateway.url}/#token={gateway.token}")
        await talk(page, *OTHER)
        await page.get_by_role("button", name="New conversation").click()
        await talk(page, *QUESTIONS)
        await expect(page.locator("#sessions li")).to_have_count(2)
        await page.mouse.move(600, 5)
        await page.screenshot(path=file)
        await page.close()


async def take_work(
    browser: Browser, scheme: Literal["light", "dark"], question: str, host: str, file: Path
) -> None:
    """Takes a picture of calls of tools: commands in the sandbox run, others need a person."""
    whole: dict[str, Any] = {"tools": {"exec": {"host": host}}}
    waits = host == "gateway"
    async with (
        StubModelServer(script) as model,
        running_gateway(config=config(model.base_url) | whole, arguments=MODEL) as gateway,
    ):
        workspace = gateway.home / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "tides.md").write_text(NOTES)
        (workspace / "check.sh").write_text(CHECKS)
        page = await browser.new_page(
            color_scheme=scheme,
            viewport={"width": 1200, "height": 640 if waits else 1040},
            device_scale_factor=1.5,
        )
        await page.goto(f"{gateway.url}/#token={gateway.token}")
        await talk(page, *OTHER)
        await page.get_by_role("button", name="New conversation").click()
        await page.get_by_label("Message", exact=True).fill(question)
        await page.keyboard.press("Enter")
        if waits:
            await expect(page.locator("#waiting-count")).to_have_text("1")
            await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()
        else:
            done = page.locator(".answer[data-state=done]:has(.cost)")
            await expect(done).to_have_count(1)
            for fold in await page.locator("#log .tools > li > details:not([open])").all():
                await fold.locator("summary").click()
            await expect(page.get_by_role("button", name="Undo")).to_be_visible()
        await expect(page.locator("#sessions li")).to_have_count(2)
        await page.mouse.move(600, 5)
        await page.screenshot(path=file)
        await page.close()


async def take_memory(browser: Browser, file: Path) -> None:
    """Takes a picture of the memory of a plugin, with a relayer of its own."""
    with TemporaryDirectory() as folder:
        home = Path(folder) / "state"
        account = await made(home)
        async with served(home) as relayer, StubModelServer(script) as model:
            options = {
                "privateKey": account["delegateKey"],
                "accountId": account["accountId"],
                "serverUrl": relayer.url,
            }
            whole = {
                "plugins": {
                    "slots": {"memory": "memory-memwal"},
                    "entries": {"memory-memwal": {"config": options}},
                }
            }
            running = running_gateway(
                home=home, config=config(model.base_url) | whole, arguments=MODEL
            )
            async with running as gateway, GatewayClient(gateway.address) as client:
                for text in FACTS:
                    await client.request("memory-memwal.remember", {"text": text})
                with anyio.fail_after(60):
                    while True:
                        state = await client.request("memory-memwal.status")
                        if state["memories"] == len(FACTS):
                            break
                        await anyio.sleep(0.1)
                page = await browser.new_page(
                    color_scheme="light",
                    viewport={"width": 1100, "height": 640},
                    device_scale_factor=1.5,
                )
                await page.goto(f"{gateway.url}/#token={gateway.token}")
                await page.locator("#memory").click()
                await (
                    page.get_by_role("searchbox", name="Question")
                    .or_(page.locator("dialog.memory input[type=search]"))
                    .first.fill("Where does the boat leave from?")
                )
                await page.keyboard.press("Enter")
                hits = page.locator("dialog.memory .hits li:not(.none)")
                await expect(hits.first).to_be_visible()
                await page.screenshot(path=file)
                await page.close()


async def take_panels(browser: Browser) -> None:
    """Takes pictures of the first screen, the panel of channels and that of the schedule."""
    async with TelegramServer() as telegram, StubModelServer(script) as model:
        account = {"botToken": telegram.token, "apiRoot": telegram.root}
        whole = config(model.base_url) | {"channels": {"telegram": account}}
        async with (
            running_gateway(config=whole, arguments=MODEL) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            telegram.say("Hello! Is this the agent of the island?", name="Ada")
            await telegram.wait_for(1)
            for name, schedule, text in JOBS:
                payload = {"kind": "agentTurn", "message": text}
                job = {"name": name, "schedule": schedule, "payload": payload}
                await client.request("cron.add", job)
            page = await browser.new_page(
                color_scheme="light",
                viewport={"width": 1200, "height": 860},
                device_scale_factor=1.5,
            )
            await page.goto(f"{gateway.url}/#token={gateway.token}")
            await expect(page.locator("#abilities")).to_be_visible()
            await page.screenshot(path=IMAGES / "first.png")
            for name, file in (("Channels", "channels.png"), ("Schedule", "schedule.png")):
                await page.get_by_role("button", name=name, exact=True).click()
                panel = page.get_by_role("dialog", name=name)
                await expect(panel.locator("li strong").first).to_be_visible()
                await panel.screenshot(path=IMAGES / file)
                await page.keyboard.press("Escape")
            await page.close()


async def talk(page: Page, *questions: str) -> None:
    """Asks the questions one after the other."""
    for number, question in enumerate(questions, start=1):
        await page.get_by_label("Message", exact=True).fill(question)
        await page.keyboard.press("Enter")
        done = page.locator(".answer[data-state=done]:has(.cost)")
        await expect(done).to_have_count(number)
        await page.wait_for_timeout(500)  # the list of conversations gets the row of the answer


async def main() -> None:
    """Takes all pictures."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        await take(browser, "light", IMAGES / "webchat.png")
        await take(browser, "dark", IMAGES / "webchat-dark.png")
        await take_work(browser, "light", CORRECT, "sandbox", IMAGES / "tool-calls.png")
        await take_work(browser, "dark", PUBLISH, "gateway", IMAGES / "approval.png")
        await take_memory(browser, IMAGES / "memwal.png")
        await take_panels(browser)
        await browser.close()
    for file in IMAGES.glob("*.png"):
        with Image.open(file) as picture:
            reduced = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        reduced.save(file, optimize=True)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
