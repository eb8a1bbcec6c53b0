"""The doctor says who has written in the owner's conversation."""

from pathlib import Path

import pytest

from skerry.config.root import Config
from skerry.config.session import SessionConfig
from skerry.features.doctor.safety import conversations
from skerry.features.retention.checks import retention_check
from skerry.infra.clock import DAY_MS
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.ports.checks import Level
from skerry.store import DATABASE, open_store, runs, sessions


async def write(home: Path, peer: str, origin: Origin, key: str = "main") -> None:
    to = ReplyTo(ChannelId("x"), AccountId("a"), Peer(PeerKind.DIRECT, peer), "m1")
    run = RunRequest(RunId(peer + key), SessionKey.parse(key), "hi", reply_to=to, origin=origin)
    async with open_store(home / DATABASE) as store:
        await store.write(lambda unit: runs.add(unit, run, SessionId("s"), 0, 1))


def config(home: Path, **session: str) -> Config:
    own = SessionConfig.model_validate(session)
    return Config(state_dir=home, path=home / "skerry.json", session=own)


@pytest.mark.requirement("session-dm-scope-main")
async def test_strangers_in_main_are_counted(tmp_path: Path) -> None:
    assert conversations(config(tmp_path)).level is Level.OK  # no database yet
    await write(tmp_path, "boss", Origin.OWNER)
    await write(tmp_path, "eve", Origin.STRANGER, "x:direct:eve")
    assert conversations(config(tmp_path)).level is Level.OK
    shared = config(tmp_path, dmScope="main")
    assert "share main" in conversations(shared).message
    await write(tmp_path, "eve", Origin.STRANGER)
    await write(tmp_path, "mallory", Origin.STRANGER, "global")
    check = conversations(shared)
    assert (check.level, check.message[:7]) == (Level.WARNING, "2 chats")
    assert "commands.ownerAllowFrom" in check.remedy


async def test_what_is_over_the_limits_is_told_where_nothing_is_removed(tmp_path: Path) -> None:
    assert retention_check(config(tmp_path), 0).level is Level.OK  # no database yet
    key = SessionKey.parse("trip")
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: sessions.ensure(unit, key, SessionId("s"), 1))
    assert retention_check(config(tmp_path), DAY_MS).level is Level.OK
    check = retention_check(config(tmp_path), 40 * DAY_MS)
    assert (check.level, "1 conversations would be archived" in check.message) == (
        Level.WARNING,
        True,
    )
