"""A relayer for each test of its routes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.relayer import Lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = Lab(tmp_path)
    async with made.http:
        yield made
    made.relayer.nonces.close()
