"""One Chromium for the tests of a module: to launch it takes longer than most of them."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.e2e.browser import Chromium, launched, watched


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Lets what lives as long as a module share the event loop with its tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def process() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest.fixture
async def browser(process: Browser) -> AsyncIterator[Chromium]:
    """Gives a test pages in profiles of its own."""
    async with watched(process) as browser:
        yield browser
