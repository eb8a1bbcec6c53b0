"""A conversation that the retention archived: its person is notified, and can restore it."""

import os
from pathlib import Path

from skerry.config.root import Config
from skerry.features.retention.service import look
from skerry.hooks.hooks import Hooks
from skerry.model.session import SessionSettings
from skerry.store import archive
from tests.support.core import Core
from tests.support.openings import (
    ALICE,
    HOUR,
    Opened,
    current,
    delivered,
    earlier,
    receive,
    transcript_texts,
)

ENFORCE = {"session": {"maintenance": {"mode": "enforce"}}}


async def put_away(opened: Opened, core: Core, home: Path) -> None:
    """Lets the upkeep of forty days later do what is due."""
    opened.clock.advance(40 * 24 * HOUR)
    config = Config.model_validate({**ENFORCE, "state_dir": home, "path": home / "skerry.json"})
    await look(core.store, config, opened.clock.now_ms(), Hooks())


async def test_a_guest_is_told_that_an_unused_conversation_was_put_away_and_resumes_it(
    tmp_path: Path,
) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await receive(core, "my boat is blue", "a1")
        first = await current(core, ALICE)
        await put_away(opened, core, tmp_path)
        assert [session.session_id for session in await earlier(core, ALICE)] == [first.session_id]

        await receive(core, "hello again", "a2")
        assert (await current(core, ALICE)).session_id != first.session_id
        assert opened.seen() == ["hello again"]
        (note,) = [text for _, text in await delivered(core) if "put away" in text]
        assert "`/resume`" in note

        await receive(core, "/resume", "a3")
        assert (await current(core, ALICE)).session_id == first.session_id


async def test_it_is_told_once_and_what_belongs_to_the_conversation_holds(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await receive(core, "hi", "a1")
        first = await current(core, ALICE)
        own = SessionSettings(model="test/script", send_policy="deny")
        await core.store.write(
            lambda unit: archive.change(unit, first.session_id, label="Alice", settings=own)
        )
        await put_away(opened, core, tmp_path)
        for number in (2, 3):
            await receive(core, "hello", f"a{number}")
        now = await current(core, ALICE)
        assert (now.label, now.settings) == ("Alice", SessionSettings(send_policy="deny"))
        assert sum("put away" in text for text in await transcript_texts(core, ALICE)) == 1
        assert all("put away" not in text for _, text in await delivered(core))


async def test_nothing_is_said_where_somebody_deleted_it(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await receive(core, "hi", "a1")
        await receive(core, "/new", "a2")
        now = opened.clock.now_ms() + 1
        await core.store.write(lambda unit: archive.delete(unit, ALICE, now))
        await receive(core, "hello", "a3")
        assert all("put away" not in text for text in await transcript_texts(core, ALICE))


async def test_copies_of_files_end_after_a_week_also_where_no_other_comes(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        now = opened.clock.now_ms() + 40 * 24 * HOUR
        for name, age in (("old", 8), ("new", 6)):
            for folder in ("inbound", "outbound"):
                path = tmp_path / "media" / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("x")
                os.utime(path, (now / 1000 - age * 86_400,) * 2)
        await put_away(opened, core, tmp_path)
        assert {path.name for path in tmp_path.glob("media/*/*")} == {"new"}
