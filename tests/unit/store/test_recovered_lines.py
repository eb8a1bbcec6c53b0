"""Lines of the mirror that the database does not have are kept before the file is cut."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import CompactionMessage
from skerry.model.redaction import Redaction
from skerry.sessions import recovering
from skerry.sessions.recovering import RecoveryOutcome
from skerry.store import (
    Store,
    Unit,
    compactions,
    open_store,
    recovered_lines,
    rollback_check,
    sessions,
)
from skerry.store.mirror import Mirror
from skerry.store.orphan_mirrors import clean
from tests.unit.store.test_compactions import summary
from tests.unit.store.test_mirror import KEY, Files, say


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def lose_entries(files: Files, before: list[str], after: list[str]) -> None:
    """Removes the entries after number `after` from the database; the file still has them."""
    path = files.home / "state.sqlite"
    async with open_store(path) as store:
        await store.write(partial(say, texts=before))
        await files.start(store)
    shutil.copy2(path, files.home / "older")
    async with open_store(path) as store:
        await store.write(partial(say, texts=after))
        await files.start(store)
    shutil.copy2(files.home / "older", path)


async def texts(store: Store) -> list[str]:
    entries = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
    return [
        entry.message.content[0].text  # type: ignore[union-attr]
        for entry in entries
        if entry.message.content
    ]


async def test_the_file_is_kept_once_and_the_mirror_follows_the_database(files: Files) -> None:
    await lose_entries(files, ["one"], ["two", "three"])
    async with open_store(files.home / "state.sqlite") as store:
        await files.start(store)
        assert files.texts() == ["one"]
        await files.start(store)
        (kept_file,) = recovered_lines.every(files.home)
        assert (kept_file.key, kept_file.messages, kept_file.first) == (str(KEY), 2, 2)
        assert b"three" in Path(kept_file.file).read_bytes()
        assert store.condition.aside is not None


async def test_a_database_that_is_another_one_is_named(files: Files) -> None:
    await lose_entries(files, ["one"], ["two"])
    (files.home / "state.sqlite").unlink()
    async with open_store(files.home / "state.sqlite") as store:
        await files.start(store)
    back = rollback_check.read_note(files.home / recovered_lines.FOLDER)
    assert back is not None
    assert "was replaced" in back.message
    (kept_file,) = recovered_lines.every(files.home)
    assert (kept_file.key, kept_file.messages) == (str(KEY), 2)  # the session map had the key
    assert not files.file.exists()


async def test_an_orderly_day_and_a_crash_keep_nothing(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
        await store.write(partial(say, texts=["two"]))
        crashed = files.mirror()
        crashed.touched.add(["s1"])
        await crashed._append(store)  # the process ends before the mark is saved
    async with open_store(files.home / "state.sqlite") as store:
        await files.start(store)
        assert store.condition.aside is None
    assert not (files.home / recovered_lines.FOLDER).exists()


async def test_a_file_that_cannot_be_kept_is_not_cut(files: Files) -> None:
    await lose_entries(files, ["one"], ["two"])
    whole = files.file.read_bytes()
    (files.home / recovered_lines.FOLDER).write_text("a file where the folder is to be")
    async with open_store(files.home / "state.sqlite") as store:
        await files.start(store)
        other_messages = [message.user("other", 9)]
        await store.write(
            lambda unit: sessions.append(
                unit, SessionId("s1"), 1, "r9", other_messages, 1_800_000_000_000
            )
        )
        await files.start(store)
        assert files.file.read_bytes() == whole
        (files.home / recovered_lines.FOLDER).unlink()
        await files.start(store)
        assert files.texts() == ["one", "other"]
    (kept_file,) = recovered_lines.every(files.home)
    assert b"two" in Path(kept_file.file).read_bytes()


async def test_what_was_forgotten_is_not_kept_and_what_is_kept_can_be_forgotten(
    files: Files,
) -> None:
    await lose_entries(files, ["one"], ["the word is zanzibar"])
    async with open_store(files.home / "state.sqlite") as store:
        await files.start(store)
    folder = files.home / recovered_lines.FOLDER / "main"
    assert clean(folder, (), Redaction(["zanzibar"])) == 1
    assert all(b"zanzibar" not in path.read_bytes() for path in folder.iterdir())


async def test_the_rest_is_added_with_its_summary_where_the_session_ends(files: Files) -> None:
    path = files.home / "state.sqlite"
    session_id = SessionId("s1")
    async with open_store(path) as store:
        await store.write(partial(say, texts=["one", "two"]))
        await files.start(store)
    shutil.copy2(path, files.home / "older")

    def go_on(unit: Unit) -> None:
        tail = compactions.add(unit, session_id, 2, summary(2), 7, 5)
        reply = message.decode(
            b'{"role":"assistant","content":[{"type":"text","text":"yes"}],"api":"a",'
            b'"provider":"p","model":"m","usage":{},"stopReason":"stop","timestamp":9}'
        )
        sessions.append(unit, session_id, tail, "r2", [message.user("three", 8), reply], 8)

    async with open_store(path) as store:
        await store.write(go_on)
        await files.start(store)
        whole = files.file.read_bytes()
    shutil.copy2(files.home / "older", path)
    async with open_store(path) as store:
        mirror = Mirror(files.home / "agents", Path("/workspace"))
        await mirror.repair(store)
        (kept_file,) = recovered_lines.every(files.home)
        assert (
            await store.write(lambda unit: recovering.take(unit, kept_file, 99))
            is RecoveryOutcome.ADDED
        )
        mirror.touched.add(["s1"])
        await mirror.flush(store)
        assert files.file.read_bytes() == whole
        state = await store.read(lambda reader: compactions.state(reader, "s1"))
        assert isinstance(state.last, CompactionMessage)
        assert (state.count, state.seq, state.last.first_kept) == (1, 3, 2)
        assert (
            await store.write(lambda unit: recovering.take(unit, kept_file, 99))
            is RecoveryOutcome.ALREADY_IMPORTED
        )


async def test_what_is_no_line_of_a_transcript_is_not_kept(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
        with files.file.open("ab") as file:
            file.write(b'not json\n[1]\n{"type":"session","id":"x"}\n{"type":"message","id":"00')
        await files.start(store)
        assert files.texts() == ["one"]
    assert recovered_lines.every(files.home) == []


async def test_a_session_whose_conversation_starts_over_in_an_older_database_is_kept(
    files: Files,
) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
    (files.home / "state.sqlite").unlink()
    async with open_store(files.home / "state.sqlite") as store:
        key = SessionKey.parse(str(KEY))
        await store.write(lambda unit: sessions.ensure(unit, key, SessionId("s1"), 1))
        await files.start(store)
    (kept_file,) = recovered_lines.every(files.home)
    assert (kept_file.messages, kept_file.first) == (1, 1)
