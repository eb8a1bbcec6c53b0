"""Fixtures of the tests of the iMessage adapter."""

from collections.abc import AsyncGenerator

import pytest

from skerry.testing.bluebubbles_server import BlueBubblesServer
from tests.unit.channels.imessage.mac import Rig


@pytest.fixture
async def rig() -> AsyncGenerator[Rig]:
    async with BlueBubblesServer() as server:
        yield Rig(server)
