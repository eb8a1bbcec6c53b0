"""The tool `message`: sends to the owner through the outbox, and to nobody else."""

from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from skerry.app.build import Application
from skerry.hooks.hooks import Hooks
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.testing.channel import FakePlatform
from tests.support.whole import whole_gateway
from tests.unit.features.session_tools.test_session_tools import call

OWNER: Final = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)
CONFIG: Final[dict[str, Any]] = {
    "tools": {"profile": "messaging"},
    "commands": {"ownerAllowFrom": ["elsewhere:1", "memory:alice"]},
}


async def arrived(platform: FakePlatform) -> list[tuple[str, str]]:
    with anyio.fail_after(60):
        while not platform.received():  # noqa: ASYNC110 - the platform is files
            await anyio.sleep(0.01)
    return [(message.peer, message.text) for message in platform.received()]


async def send(application: Application, **arguments: object) -> dict[str, Any]:
    return await call(application, "message", OWNER, **arguments)


@pytest.mark.parametrize("fields", [{}, {"channel": "memory"}, {"to": "memory:alice"}])
async def test_the_owner_gets_it_once(tmp_path: Path, fields: dict[str, object]) -> None:
    platform = FakePlatform(tmp_path / "platform")
    platform.folder.mkdir()
    async with whole_gateway(tmp_path / "home", Hooks(), platform, CONFIG) as (application, _):
        payload = await send(application, action="send", message="The build is done.", **fields)
        assert payload == {
            "ok": True,
            "channel": "memory",
            "target": "alice",
            "dryRun": False,
            "parts": 1,
        }
        assert await arrived(platform) == [("alice", "The build is done.")]


@pytest.mark.parametrize(
    "fields", [{"target": "bob"}, {"channel": "elsewhere"}, {"channel": "memory", "target": "1"}]
)
async def test_nobody_else_gets_anything(tmp_path: Path, fields: dict[str, object]) -> None:
    platform = FakePlatform(tmp_path / "platform")
    platform.folder.mkdir()
    async with whole_gateway(tmp_path / "home", Hooks(), platform, CONFIG) as (application, _):
        with pytest.raises(ToolError, match="Nothing was sent"):
            await send(application, message="hi", **fields)
        assert (await send(application, message="hi", dryRun=True))["dryRun"] is True
        guest = Caller(SessionKey.main(), PeerKind.GROUP, Origin.STRANGER)
        with pytest.raises(ToolError, match="Only the owner"):
            await call(application, "message", guest, message="hi")
        assert platform.received() == []
