"""Images from the page to the model and back, through the whole gateway."""

import base64
from typing import Any

import pytest
from playwright.async_api import FilePayload, expect

from skerry.testing.gateway import model_config, running_gateway
from skerry.testing.model_server import StubModelServer
from tests.e2e.browser import Chromium, address, expect_online, say
from tests.e2e.test_page_tools import DROP

pytestmark = pytest.mark.full("Chromium")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def seeing(base_url: str) -> dict[str, Any]:
    """Returns the configuration of a gateway whose model reads images."""
    config = model_config(base_url)
    config["models"]["providers"]["test"]["models"] = [{"id": "stub", "input": ["text", "image"]}]
    return config


@pytest.mark.parametrize("text", ["What is this?", ""])
async def test_an_image_reaches_the_model_and_is_there_after_a_reload(
    browser: Chromium, text: str
) -> None:
    async with (
        StubModelServer([["A dot."], ["Still a dot."]]) as model,
        running_gateway(config=seeing(model.base_url), arguments=["--model", "configured"]) as gate,
    ):
        page = await browser.open(address(gate))
        await expect(page.get_by_role("button", name="Add images")).to_be_visible()
        file = FilePayload(name="dot.png", mimeType="image/png", buffer=PIXEL)
        await page.locator("#files").set_input_files([file])
        await expect(page.locator("#attached img")).to_have_count(1)
        await say(page, text)
        await expect(page.locator(".answer .text")).to_have_text("A dot.")
        (request,) = model.requests
        assert base64.b64encode(PIXEL).decode() in str(request.body["messages"][-1]["content"])
        await page.reload()
        picture = page.locator(".person .pictures img")
        await expect(picture).to_have_count(1)
        assert await picture.evaluate("image => image.naturalWidth") == 1


@pytest.mark.parametrize("how", ["drop", "paste"])
async def test_an_image_that_the_model_cannot_see_is_refused_with_a_word(
    browser: Chromium, how: str
) -> None:
    async with (
        StubModelServer() as model,
        running_gateway(model=model.base_url) as gate,  # of which nobody says that it sees
    ):
        page = await browser.open(address(gate))
        await expect_online(page)
        await page.evaluate(DROP, [how, base64.b64encode(PIXEL).decode()])
        await expect(page.locator("#toast")).to_contain_text(
            "dot.png was not attached: the model of this conversation reads no images"
        )
        await expect(page.locator("#attached")).to_be_hidden()
