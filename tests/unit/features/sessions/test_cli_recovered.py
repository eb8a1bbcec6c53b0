"""Messages that cannot be read and that no file has are given up one by one, and it is noted."""

import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from skerry.cli.main import main
from skerry.model.message import AssistantMessage, Message, is_note
from skerry.model.session import entry_id
from skerry.store import DATABASE, open_store, sessions
from skerry.store.condition import Storage
from tests.unit.store.test_mirror import say
from tests.unit.store.test_unreadable_entries import damage

TIME = "2026-11-23T00:00:00.000Z"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three messages, of which the second and the third cannot be read."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("SKERRY_STATE_DIR", str(home))

    async def fill() -> None:
        async with open_store(home / DATABASE) as store:
            await store.write(partial(say, texts=["one", "two", "three"]))

    anyio.run(fill)
    damage(home, "UPDATE entry SET body = x'7bff', at = 'x' WHERE seq = 2")
    damage(home, "UPDATE entry SET kind = CAST(x'ff41' AS TEXT), body = x'00' WHERE seq = 3")
    return home


def accept(*names: str) -> int:
    return main(["sessions", "recovered", "accept", *names, "--json"])


def readable_messages(home: Path) -> tuple[Storage, list[Message]]:
    """Returns the condition of the storage, and the readable messages."""

    async def look() -> tuple[Storage, list[Message]]:
        async with open_store(home / DATABASE) as store:
            await store.check(whole=False)
            entries = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
            return store.condition.storage, [entry.message for entry in entries]

    return anyio.run(look)


def noted(home: Path) -> list[tuple[str, int]]:
    lines = (home / "recovered" / "accepted.jsonl").read_text("utf-8").splitlines()
    return [(row["session_id"], row["seq"]) for row in map(json.loads, lines)]


def test_one_is_given_up_and_then_the_rest_and_each_is_noted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readable_messages(home)[0] is Storage.CORRUPT
    assert accept("s1:3") == 0
    accepted = json.loads(capsys.readouterr().out)["accepted"]
    assert [(row["entry"], row["failed"]) for row in accepted] == [("s1:3", False)]
    storage, _ = readable_messages(home)
    assert (storage, noted(home)) == (Storage.CORRUPT, [("s1", 3)])
    assert accept("--all") == 0
    storage, messages = readable_messages(home)
    assert (storage, noted(home)) == (Storage.OK, [("s1", 3), ("s1", 2)])
    assert [is_note(message) for message in messages] == ["", "notice", "notice"]
    assert isinstance(messages[1], AssistantMessage)
    assert "was unreadable" in messages[1].text
    (file,) = home.glob("agents/*/sessions/s1.jsonl")
    assert len(file.read_text("utf-8").splitlines()) == 4  # the header, and each message


def test_what_a_file_has_is_not_given_up(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {"role": "user", "content": [{"type": "text", "text": "two"}], "timestamp": 2}
    kept = home / "recovered" / "main" / "s1.jsonl"
    kept.parent.mkdir(parents=True)
    ids = [None, entry_id(1), entry_id(2)]
    lines = [
        {"type": "message", "id": own, "parentId": parent, "timestamp": TIME, "message": whole}
        for parent, own in pairwise(ids)
    ]
    kept.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert accept("--all") == 1
    accepted = json.loads(capsys.readouterr().out)["accepted"]
    assert [(row["entry"], row["failed"]) for row in accepted] == [("s1:2", True), ("s1:3", False)]
    assert noted(home) == [("s1", 3)]


def test_what_can_be_read_cannot_be_given_up(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accept("s1:1") == 1
    assert "Unknown unreadable message" in capsys.readouterr().out
    assert not (home / "recovered").exists()
