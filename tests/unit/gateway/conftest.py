"""A gateway and a client that is let in, for one test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire, connected


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


@pytest.fixture
async def wire(rig: Rig) -> AsyncIterator[Wire]:
    async with connected(rig.url) as wire:
        yield wire
