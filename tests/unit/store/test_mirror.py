"""The mirror: files that equal the transcript after any crash."""

import os
import threading
import tracemalloc
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.store import Store, Unit, open_store, session_listing, sessions
from skerry.store.mirror import Mirror

KEY = SessionKey.parse("agent:main:memory:direct:alice")


def say(unit: Unit, texts: list[str]) -> int:
    session_id, tail = sessions.ensure(unit, KEY, SessionId("s1"), 1_700_000_000_000)
    messages = [message.user(text, 5) for text in texts]
    return sessions.append(unit, session_id, tail, "r1", messages, 1_700_000_000_123)


class Files:
    """A home with a mirror that a test can crash."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "agents" / "main" / "sessions"
        self.file = self.folder / "s1.jsonl"

    def mirror(self) -> Mirror:
        return Mirror(self.home / "agents", Path("/workspace"))

    def lines(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.file.read_bytes().splitlines()]

    def texts(self) -> list[str]:
        return [line["message"]["content"][0]["text"] for line in self.lines()[1:]]

    async def start(self, store: Store) -> None:
        await self.mirror().repair(store)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.requirement("session-transcript-file")
@pytest.mark.requirement("transcript-header-line")
@pytest.mark.requirement("transcript-message-line")
async def test_a_transcript_has_a_header_and_a_line_for_each_message(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one", "two"]))
        await files.start(store)
    header, first, second = files.lines()
    assert header == {
        "type": "session",
        "version": 3,
        "id": "s1",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "cwd": "/workspace",
    }
    assert first["message"] == {
        "role": "user",
        "content": [{"type": "text", "text": "one"}],
        "timestamp": 5,
    }
    assert (first["type"], first["parentId"]) == ("message", None)
    assert (second["type"], second["parentId"]) == ("message", first["id"])
    assert second["timestamp"] == "2023-11-14T22:13:20.123Z"


@pytest.mark.requirement("session-store-file")
async def test_the_session_map_names_each_conversation(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
    session_map = msgspec.json.decode((files.folder / "sessions.json").read_bytes())
    assert session_map[str(KEY)]["sessionId"] == "s1"
    assert session_map[str(KEY)]["updatedAt"] == 1_700_000_000_123


async def test_a_crash_between_append_and_mark_doubles_nothing(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
        await store.write(partial(say, texts=["two"]))
        crashed = files.mirror()
        crashed.touched.add(["s1"])
        await crashed._append(store)  # the process ends before the mark is saved
        assert files.texts() == ["one", "two"]
        await store.write(partial(say, texts=["three"]))
        await files.start(store)
    assert files.texts() == ["one", "two", "three"]


async def test_half_a_line_is_cut_off(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
        with files.file.open("ab") as file:
            file.write(b'{"type":"message","id":"00')
        await files.start(store)
    assert files.texts() == ["one"]


async def test_a_file_that_lost_its_end_or_is_gone_is_written_again(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one", "two"]))
        await files.start(store)
        whole = files.file.read_bytes()
        files.file.write_bytes(whole[:-9])
        await files.start(store)
        assert files.file.read_bytes() == whole
        files.file.unlink()
        await files.start(store)
    assert files.file.read_bytes() == whole


async def test_a_rebuild_overwrites_what_somebody_changed(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
        whole = files.file.read_bytes()
        files.file.write_bytes(whole.replace(b"one", b"two"))
        assert await files.mirror().rebuild(store) == 1
    assert files.file.read_bytes() == whole


class Slow:
    """The store, whose `write` or `read_now` waits for a gate."""

    def __init__(self, store: Store, *, writes: bool) -> None:
        self._store = store
        self.reached, self.gate = threading.Event(), threading.Event()
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Any) -> Any:
        if self._writes:
            self.reached.set()
            await anyio.to_thread.run_sync(self.gate.wait)
        return await self._store.write(work)

    def read_now(self, work: Any) -> Any:
        if not self._writes:
            self.reached.set()
            self.gate.wait()
        return self._store.read_now(work)


async def test_what_is_rewritten_while_marks_are_saved_is_not_taken_for_written(
    files: Files,
) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one", "two"]))
        mirror = files.mirror()
        mirror.touched.add(["s1"])
        saving: Any = Slow(store, writes=True)
        rewriting: Any = Slow(store, writes=False)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(mirror.flush, saving)
                await anyio.to_thread.run_sync(saving.reached.wait)
                files.file.write_bytes(files.file.read_bytes().replace(b"one", b"ONE"))
                tasks.start_soon(mirror.rewrite, rewriting, ["s1"])
                await anyio.to_thread.run_sync(rewriting.reached.wait, 0.5)
                saving.gate.set()
                await anyio.to_thread.run_sync(rewriting.reached.wait)
                await anyio.wait_all_tasks_blocked()
                rewriting.gate.set()
    assert files.texts() == ["one", "two"]


async def test_a_folder_that_cannot_be_written_is_tried_again(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        (files.home / "agents").write_text("in the way")
        mirror = files.mirror()
        await mirror.repair(store)
        (files.home / "agents").unlink()
        await mirror.flush(store)
    assert files.texts() == ["one"]


async def test_who_reads_does_not_wait_for_the_disk_of_a_file(files: Files) -> None:
    files.folder.mkdir(parents=True)
    os.mkfifo(files.file)  # opening it for writing waits for a reader
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        with anyio.fail_after(60), ExitStack() as opened:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(files.start, store)
                await anyio.wait_all_tasks_blocked()
                for _ in range(10):
                    assert await store.read(session_listing.count) == 1
                pipe = os.open(files.file, os.O_RDONLY | os.O_NONBLOCK)
                opened.callback(os.close, pipe)


async def test_a_link_in_place_of_the_file_is_not_followed(files: Files) -> None:
    outside = files.home / "outside"
    outside.write_text("")
    files.folder.mkdir(parents=True)
    files.file.symlink_to(outside)
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
    assert outside.read_text() == ""


async def test_gigabytes_of_images_are_written_in_little_memory(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.store.mirror.BATCH_BYTES", 1_000_000)
    picture = "x" * 700_000
    async with open_store(files.home / "state.sqlite") as store:
        for number in range(20):
            await store.write(partial(say, texts=[f"{number}{picture}", f"{number}"]))
        tracemalloc.start()
        await files.start(store)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert [text[:2].rstrip("x") for text in files.texts()] == [
        str(number) for number in range(20) for _ in range(2)
    ]
    assert peak < 6_000_000 < files.file.stat().st_size


async def test_a_repair_goes_on_where_a_crash_left_lines_of_megabytes(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["a" * 6_000_000, "b" * 6_000_000, "c"]))
        await files.start(store)
        whole = files.file.read_bytes()
        await store.write(partial(say, texts=["d" * 6_000_000]))
        with files.file.open("ab") as torn:
            torn.write(b"half a line")
        await files.start(store)
    assert files.file.read_bytes().startswith(whole)
    assert [text[0] for text in files.texts()] == list("abcd")


async def test_a_file_that_cannot_be_written_keeps_no_other_behind(files: Files) -> None:
    def say_in(unit: Unit, name: str) -> None:
        key = SessionKey.parse(f"agent:main:memory:direct:{name}")
        session_id, tail = sessions.ensure(unit, key, SessionId(name), 1)
        sessions.append(unit, session_id, tail, "r1", [message.user("hi", 5)], 1)

    names = [f"s{number}" for number in range(9)]
    async with open_store(files.home / "state.sqlite") as store:
        for name in names:
            await store.write(partial(say_in, name=name))
        files.folder.mkdir(parents=True)
        (files.folder / "s4.jsonl").symlink_to(files.home / "elsewhere")
        mirror = files.mirror()
        await mirror.repair(store)
        file_names = {path.stem for path in files.folder.glob("*.jsonl") if not path.is_symlink()}
        assert file_names == set(names) - {"s4"}
        (files.folder / "s4.jsonl").unlink()
        await mirror.flush(store)
        assert (files.folder / "s4.jsonl").is_file()


async def test_a_copy_that_somebody_made_is_left_alone(files: Files) -> None:
    async with open_store(files.home / "state.sqlite") as store:
        await store.write(partial(say, texts=["one"]))
        await files.start(store)
        copy = files.file.rename(files.file.with_suffix(".jsonl.mine"))
        await files.start(store)
    assert copy.exists()
    assert files.texts() == ["one"]
