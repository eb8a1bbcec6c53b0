"""The page's message box, keys, looks and states in Chromium; and that it is accessible."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, FilePayload, Page, WebSocketRoute, expect

from skerry.model.event import RunStarted, TextDelta, ThinkingDelta, ToolStarted
from skerry.model.ids import agent_id
from skerry.model.message import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from tests.e2e.browser import Chromium, expect_online, watched
from tests.e2e.test_page_text import answer, write
from tests.support.gateway import TOKEN, Rig, running_gateway

pytestmark = pytest.mark.full("Chromium")

AXE = Path(__file__).parents[1] / "conformance/node/node_modules/axe-core/axe.min.js"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
COMMANDS = [
    {"name": "new", "description": "Begin afresh", "acceptsArgs": False},
    {"name": "model", "description": "Choose a model", "acceptsArgs": True},
    {"name": "stop", "description": "Stop the answer", "acceptsArgs": False},
]

Frame = dict[str, Any]
Change = Callable[[Frame], Frame]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


@pytest.fixture
async def browser(rig: Rig, process: Browser) -> AsyncIterator[Chromium]:  # noqa: ARG001 - so it ends before the gateway
    # The socket that `play` stands in for does not tell the page at once that the real one is
    # closing, and the browser complains of what the page still sends.
    async with watched(process) as browser:
        yield browser


async def open_page(browser: Chromium, rig: Rig, **profile: Any) -> Page:
    page = await browser.tab(**profile)
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect_online(page)
    return page


async def play(
    page: Page, answers: dict[str, Any], change: Change = lambda frame: frame
) -> list[Frame]:
    """Lets a gateway that has more methods, `answers`, stand before the real one.

    An answer is a payload, or a function that answers when it likes.

    Returns a list that grows by what the page sends.
    """
    sent: list[Frame] = []

    def between(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def up(message: str | bytes) -> None:
            frame = json.loads(message)
            sent.append(frame)
            if frame["method"] not in answers:
                server.send(message)
                return
            payload = answers[frame["method"]]
            if callable(payload):
                payload(route, frame)
                return
            route.send(
                json.dumps({"type": "res", "id": frame["id"], "ok": True, "payload": payload})
            )

        def down(message: str | bytes) -> None:
            frame = json.loads(message)
            features = (frame.get("payload") or {}).get("features")
            if features:
                features["methods"] += list(answers)
            route.send(json.dumps(change(frame)))

        route.on_message(up)
        server.on_message(down)

    await page.route_web_socket("**/*", between)
    return sent


async def with_commands(browser: Chromium, rig: Rig) -> Page:
    page = await browser.tab()
    await play(page, {"commands.list": {"commands": COMMANDS}})
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect_online(page)
    return page


async def test_a_slash_offers_commands_that_keys_choose(browser: Chromium, rig: Rig) -> None:
    page = await with_commands(browser, rig)
    box = page.get_by_label("Message", exact=True)
    options = page.get_by_role("option")
    await box.press_sequentially("/")
    await expect(options).to_have_count(3)
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("/model")
    await page.keyboard.press("Enter")
    await expect(box).to_have_value("/model ")
    await expect(options).to_have_count(0)
    await box.fill("")
    await box.press_sequentially("/st")
    await expect(options).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(options).to_have_count(0)
    await expect(box).to_have_value("/st")


async def test_a_command_that_is_sent_is_no_longer_offered(browser: Chromium, rig: Rig) -> None:
    page = await with_commands(browser, rig)
    box = page.get_by_label("Message", exact=True)
    await box.press_sequentially("/stop")
    await expect(page.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.locator(".person .text")).to_have_text("/stop")
    await expect(page.get_by_role("option")).to_have_count(0)


async def test_commands_that_load_late_are_offered_to_a_typed_slash(
    browser: Chromium, rig: Rig
) -> None:
    page = await browser.tab()
    held: list[tuple[WebSocketRoute, str]] = []
    asked = anyio.Event()

    def hold(route: WebSocketRoute, frame: Frame) -> None:
        payload = {"commands": COMMANDS}
        answered = {"type": "res", "id": frame["id"], "ok": True, "payload": payload}
        held.append((route, json.dumps(answered)))
        asked.set()

    await play(page, {"commands.list": hold})
    await page.goto(f"{rig.http}/#token={TOKEN}")
    with anyio.fail_after(60):
        await asked.wait()
    await page.get_by_label("Message", exact=True).press_sequentially("/")
    await expect(page.get_by_role("option")).to_have_count(0)
    ((route, answered),) = held
    route.send(answered)
    await expect(page.get_by_role("option")).to_have_count(3)


async def test_without_commands_a_slash_is_only_a_slash(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig)
    await page.get_by_label("Message", exact=True).press_sequentially("/")
    await expect(page.get_by_role("option")).to_have_count(0)


async def test_a_conversation_of_another_agent_names_it(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig)
    await expect(page.locator("#agent")).to_be_empty()
    await page.goto(f"{rig.http}/#session=agent:books:main")
    await expect(page.locator("#agent")).to_have_text("books")
    await expect(page.locator("#transcript")).to_contain_text("agents/books/sessions")


async def with_images(
    browser: Chromium, rig: Rig, *, sees: bool = True
) -> tuple[Page, list[Frame]]:
    status = {
        "state": "ready",
        "message": "",
        "remedy": "",
        "model": {
            "id": "eyes",
            "name": "Eyes",
            "provider": "stub",
            "input": ["image", "text"] if sees else ["text"],
        },
    }
    page = await browser.tab()
    sent = await play(page, {"models.status": status})
    await page.goto(f"{rig.http}/#token={TOKEN}")
    button = page.get_by_role("button", name="Add images")
    await (expect(button).to_be_visible() if sees else expect_online(page))
    return page, sent


async def test_an_image_is_shown_before_it_goes_and_can_be_removed(
    browser: Chromium, rig: Rig
) -> None:
    page, _ = await with_images(browser, rig)
    file = FilePayload(name="dot.png", mimeType="image/png", buffer=PIXEL)
    await page.locator("#files").set_input_files([file])
    await expect(page.locator("#attached img")).to_have_attribute("alt", "dot.png")
    await page.get_by_role("button", name="Remove dot.png").click()
    await expect(page.locator("#attached")).to_be_hidden()
    text = FilePayload(name="a.txt", mimeType="text/plain", buffer=b"x")
    await page.locator("#files").set_input_files([text])
    await expect(page.locator("#toast")).to_contain_text("a.txt was not attached: only PNG")


DROP = """([kind, data]) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], "dot.png", { type: "image/png" }));
  const place = document.getElementById("message");
  const options = { bubbles: true, cancelable: true };
  place.dispatchEvent(kind === "drop"
    ? new DragEvent("drop", { ...options, dataTransfer: transfer })
    : new ClipboardEvent("paste", { ...options, clipboardData: transfer }));
}"""


@pytest.mark.parametrize("how", ["drop", "paste"])
async def test_an_image_goes_with_the_message(browser: Chromium, rig: Rig, how: str) -> None:
    page, sent = await with_images(browser, rig)
    await page.evaluate(DROP, [how, base64.b64encode(PIXEL).decode()])
    await expect(page.locator("#attached img")).to_have_count(1)
    await page.get_by_label("Message", exact=True).fill("what is this?")
    await page.keyboard.press("Enter")
    await expect(page.locator(".person .pictures img")).to_have_count(1)
    await expect(page.locator("#attached")).to_be_hidden()
    (message,) = [row["params"] for row in sent if row["method"] == "chat.send"]
    content = base64.b64encode(PIXEL).decode()
    assert message["attachments"] == [
        {"type": "image", "mimeType": "image/png", "fileName": "dot.png", "content": content}
    ]


@pytest.mark.parametrize("how", ["drop", "paste"])
async def test_an_image_that_the_model_cannot_see_is_refused_with_a_word(
    browser: Chromium, rig: Rig, how: str
) -> None:
    page, _ = await with_images(browser, rig, sees=False)
    await page.evaluate(DROP, [how, base64.b64encode(PIXEL).decode()])
    await expect(page.locator("#toast")).to_contain_text("dot.png was not attached: the model")
    await expect(page.locator("#attached")).to_be_hidden()


async def test_escape_stops_an_answer(browser: Chromium, rig: Rig) -> None:
    page = await open_page(browser, rig)
    await page.get_by_label("Message", exact=True).fill("hi")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert all(run.result for run in rig.dispatcher.runs.values())


async def test_a_question_mark_shows_the_shortcuts_except_in_a_text(
    browser: Chromium, rig: Rig
) -> None:
    page = await open_page(browser, rig)
    sheet = page.get_by_role("dialog", name="Keyboard shortcuts")
    await page.get_by_label("Message", exact=True).press_sequentially("why?")
    await expect(sheet).to_be_hidden()
    await page.locator("#scroller").focus()
    await page.keyboard.press("?")
    await expect(sheet).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(sheet).to_be_hidden()
    await page.keyboard.press("Control+/")
    await expect(sheet).to_be_visible()


async def test_a_model_and_how_long_it_thinks_are_chosen_for_one_conversation(
    browser: Chromium, rig: Rig
) -> None:
    row = {"key": "agent:main:main", "isMain": True, "updatedAt": 1, "thinkingLevel": "low"}
    page = await browser.tab()
    await play(page, {"sessions.list": {"sessions": [row]}, "sessions.patch": {"ok": True}})
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect(page.locator("#sessions li")).to_have_count(1)
    await page.locator("#model").click()
    thinking = page.get_by_label("Thinking")
    await expect(thinking).to_have_value("low")
    await thinking.select_option("high")
    await expect(page.locator("#tune-result")).to_have_text("Saved for this conversation.")
    await page.get_by_label("Model for this conversation").select_option("Other (stub)")
    await expect(page.locator("#tune-result")).to_have_text("Saved for this conversation.")


async def test_a_stopping_gateway_and_an_older_configuration_are_told(
    browser: Chromium, rig: Rig
) -> None:
    page = await browser.tab()

    def change(frame: Frame) -> Frame:
        if "snapshot" in (frame.get("payload") or {}):
            problem = {"state": "last-good", "message": "skerry.json has an error in line 3."}
            frame["payload"]["snapshot"]["health"]["configuration"] = problem
        return frame

    await play(page, {}, change)
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect(page.locator("#notice")).to_contain_text("error in line 3")
    rig.context.broadcast.shutdown("The gateway is stopping.", 1000)
    await expect(page.locator("#connection-text")).to_have_text("The gateway is stopping")


async def test_a_page_that_must_be_approved_says_how(browser: Chromium, rig: Rig) -> None:
    page = await browser.tab()

    def change(frame: Frame) -> Frame:
        if frame["type"] == "res":
            details = {"code": "PAIRING_REQUIRED", "requestId": "r-17"}
            error = {"code": "NOT_PAIRED", "message": "pairing required", "details": details}
            return {"type": "res", "id": frame["id"], "ok": False, "error": error}
        return frame

    await play(page, {}, change)
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect(page.get_by_text("skerry devices approve r-17")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
async def test_axe_finds_nothing(browser: Chromium, rig: Rig, scheme: Any, width: int) -> None:
    rig.dispatcher.reply = lambda text: f"# Echo\n\n{text}\n\n```sh\nls\n```\n\n|a|b|\n|-|-|\n|1|2|"
    page = await browser.tab(
        color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    more = [{**COMMANDS[0], "name": f"long-{number}"} for number in range(30)]
    await play(page, {"commands.list": {"commands": [*COMMANDS, *more]}})
    await page.goto(f"{rig.http}/#token={TOKEN}")
    await expect(page.locator("#welcome")).to_be_visible()
    await page.evaluate(AXE.read_text())  # over the devtools protocol, past the page's policy
    assert await complaints(page) == []
    box = page.get_by_label("Message", exact=True)
    await box.press_sequentially("/")
    await expect(page.get_by_role("option")).not_to_have_count(0)
    assert await complaints(page) == []
    if width < 500:
        await page.get_by_role("button", name="Show conversations").click()
    else:
        await page.locator("#model").click()
        await expect(page.locator("#setup")).to_be_visible()  # its module is loaded first
        assert await complaints(page) == []
        await page.keyboard.press("Escape")
        await page.locator("#help").click()
    assert await complaints(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_in_a_conversation(
    browser: Chromium, rig: Rig, scheme: Any
) -> None:
    heads = "#### Sea\n\n# Land\n\n### Hills\n\n"
    text = f"{heads}See https://example.org\n\n- a\n\n> b\n\n```sh\nls\n```\n\n|a|b|\n|-|-|\n|1|2|"
    call = ToolCall("c1", "read", {"path": "a.md"})
    failed = ToolResultMessage("c1", "read", (TextBlock("No file."),), is_error=True, timestamp=3)
    image = ImageBlock(base64.b64encode(PIXEL).decode(), "image/png")
    message = UserMessage((TextBlock("Look"), image), 1)
    first = answer(ThinkingBlock("First, the file."), call)
    await write(rig, [message, first, failed, answer(TextBlock(text))])
    page = await open_page(browser, rig, color_scheme=scheme, reduced_motion="reduce")
    await expect(page.locator(".answer td").last).to_be_visible()
    await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    await page.evaluate(AXE.read_text())
    assert await complaints(page) == []
    await page.get_by_label("Message", exact=True).fill("and now?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    (run_id,) = rig.dispatcher.runs
    rig.dispatcher.tell(run_id, RunStarted(1))
    rig.dispatcher.tell(run_id, ThinkingDelta("Hm."))
    rig.dispatcher.tell(run_id, ToolStarted("t1", "read", {"path": "a.md"}))
    rig.dispatcher.tell(run_id, TextDelta(text))
    await expect(page.locator(".answer[data-state=writing] td").last).to_be_visible()
    assert await complaints(page) == []


async def complaints(page: Page) -> list[str]:
    """Returns the findings of axe: the rule, and its elements."""
    found = await page.evaluate("axe.run().then(({ violations }) => violations)")
    return [f"{row['id']}: {[node['html'] for node in row['nodes']]}" for row in found]


async def test_an_agent_is_called_as_it_calls_itself(browser: Chromium, rig: Rig) -> None:
    workspace = rig.context.config().workspace(agent_id("main"))
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "IDENTITY.md").write_text("---\nname: Pebble\nemoji: 🪨\n---\n", encoding="utf-8")
    page = await open_page(browser, rig)
    await expect(page.locator("#agent")).to_have_text("🪨 Pebble")
