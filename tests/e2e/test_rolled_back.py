"""A database that lost its end under a gateway: the texts of the transcript files are restored."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.e2e.test_recovery import skerry
from tests.support.chaos import disagreements, until
from tests.support.readyz import ready

OLD = [f"old {number}" for number in range(3)]
NEW = [f"new {number}" for number in range(6)]


async def say(gateway: GatewayProcess, key: str, texts: list[str]) -> None:
    async with GatewayClient(gateway.address) as client:
        for text in texts:
            params = {"message": text, "idempotencyKey": f"{key} {text}", "sessionKey": key}
            await client.request("agent", params, expect_final=True)


async def user_texts(gateway: GatewayProcess, *keys: str) -> list[str]:
    """Returns the texts of the user in the conversations."""
    found = []
    async with GatewayClient(gateway.address) as client:
        for key in keys:
            history = await client.request("chat.history", {"sessionKey": key})
            users = [message for message in history["messages"] if message["role"] == "user"]
            found += [user["content"][0]["text"] for user in users]
    return found


async def command_report(home: Path, *arguments: str) -> Any:
    completed = await skerry(home, *arguments, "--json")
    return json.loads(completed.stdout)


def kept(home: Path) -> list[str]:
    """Returns the texts of the files that were kept aside."""
    lines = [
        json.loads(line)
        for file in sorted((home / "recovered").glob("*/*.jsonl"))
        for line in file.read_text().splitlines()[1:]
    ]
    return [
        line["message"]["content"][0]["text"] for line in lines if line["message"]["role"] == "user"
    ]


async def written(home: Path, texts: list[str]) -> None:
    """Waits until the transcript files have all that was said, and the mark beside them its number.

    The mark is written at most every 5 s; nothing of it is needed for what the files have.
    """

    def there() -> bool:
        files = (home / "agents" / "main" / "sessions").glob("*.jsonl")
        found = "".join(file.read_text() for file in files)
        mark = home / "state.reached.json"
        entries = json.loads(mark.read_text())["entries"] if mark.exists() else 0
        return all(text in found for text in texts) and entries == 2 * len(texts)

    await until(there)


def flip_a_byte_of_the_log(home: Path) -> None:
    with (home / "state.sqlite-wal").open("r+b") as file:
        file.seek(5000)
        (old,) = file.read(1)
        file.seek(5000)
        file.write(bytes([old ^ 0xFF]))


def delete_the_log(home: Path) -> None:
    (home / "state.sqlite-wal").unlink()


def copy_the_older_file_back(home: Path) -> None:
    delete_the_log(home)
    shutil.copy2(home / "older", home / "state.sqlite")


@pytest.mark.parametrize("lose", [flip_a_byte_of_the_log, delete_the_log, copy_the_older_file_back])
async def test_what_a_database_lost_is_kept_and_told_and_comes_back(  # noqa: PLR0915 - one story
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home) as gateway:
        await say(gateway, "trip", OLD)
        assert await gateway.stop() == 0
        shutil.copy2(home / "state.sqlite", home / "older")
        await gateway.start()
        await say(gateway, "trip", NEW)
        await say(gateway, "fresh", ["begun later"])
        await written(home, ["begun later", *OLD, *NEW])
        await gateway.kill()
        lose(home)

        await gateway.start()
        everything = sorted({*await user_texts(gateway, "trip", "fresh"), *kept(home)})
        assert everything == sorted([*OLD, *NEW, "begun later"])
        async with GatewayClient(gateway.address) as client:
            health = await client.request("health", {"probe": True})
        assert "transcript files" in health["storage"]["recovered"]["message"]
        assert "recovered list" in health["storage"]["recovered"]["remedy"]
        doctor = {row["name"]: row for row in await command_report(home, "doctor")}
        assert doctor["recovered messages"]["level"] == "warning"
        listed = await command_report(home, "sessions", "recovered", "list")
        assert {row["key"] for row in listed["recovered"]} >= {"agent:main:trip"}
        assert listed["rolledBack"]["had"]["entries"] > listed["rolledBack"]["has"]["entries"]
        assert await gateway.stop() == 0

        done = await command_report(home, "sessions", "recovered", "import")
        outcomes = {row["key"]: row["outcome"] for row in done["recovered"]}
        assert outcomes["agent:main:trip"] == "added to its session"
        await gateway.start()
        assert await user_texts(gateway, "trip", "fresh") == [*OLD, *NEW, "begun later"]
        doctor = {row["name"]: row for row in await command_report(home, "doctor")}
        assert doctor["recovered messages"]["level"] == "ok"
        assert await gateway.stop() == 0
    assert not kept(home)


async def test_a_conversation_that_went_on_gets_its_lost_part_as_an_earlier_session(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home) as gateway:
        await say(gateway, "trip", OLD)
        assert await gateway.stop() == 0
        shutil.copy2(home / "state.sqlite", home / "older")
        await gateway.start()
        await say(gateway, "trip", NEW)
        assert await gateway.stop() == 0
        shutil.copy2(home / "older", home / "state.sqlite")
        await gateway.start()
        await say(gateway, "trip", ["went on"])
        assert await gateway.stop() == 0

        (done,) = (await command_report(home, "sessions", "recovered", "import"))["recovered"]
        assert done["outcome"] == "imported as an earlier session"
        await gateway.start()
        assert await user_texts(gateway, "trip") == [*OLD, "went on"]
        async with GatewayClient(gateway.address) as client:
            rows = (await client.request("sessions.list", {"archived": True}))["sessions"]
            (row,) = [row for row in rows if row["key"] == "agent:main:trip"]
            params = {"sessionKey": "trip", "sessionId": row["sessionId"]}
            history = await client.request("chat.history", params)
        texts = [message["content"][0]["text"] for message in history["messages"]]
        assert texts[::2] == NEW


async def test_a_row_whose_bytes_changed_is_named_and_mended_from_its_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home) as gateway:
        await say(gateway, "trip", OLD)
        await say(gateway, "other", ["else"])
        assert await gateway.stop() == 0
        break_row(home, "old 1")
        await gateway.start()
        assert await user_texts(gateway, "trip", "other") == ["old 0", "old 2", "else"]
        told_by = await ready(gateway)
        assert (told_by["storage"], told_by["ready"], told_by["failing"]) == ("corrupt", True, [])
        async with GatewayClient(gateway.address) as client:
            health = await client.request("health", {"probe": True})
        assert not health["ok"]
        assert "entry 3 of session" in health["storage"]["message"]
        assert "recovered" in health["storage"]["remedy"]
        await say(gateway, "trip", ["it goes on"])
        doctor = {row["name"]: row for row in await command_report(home, "doctor")}
        assert (doctor["database"]["level"], "recovered" in doctor["database"]["remedy"]) == (
            "failure",
            True,
        )
        listed = await command_report(home, "sessions", "recovered", "list")
        assert [(row["key"], row["seq"], row["in_file"]) for row in listed["unreadable"]] == [
            ("agent:main:trip", 3, True)
        ]
        assert await gateway.stop() == 0
        done = await command_report(home, "sessions", "recovered", "import")
        assert [row["failed"] for row in done["recovered"]] == [False]
        await gateway.start()
        assert await user_texts(gateway, "trip") == [*OLD, "it goes on"]
        assert (await ready(gateway))["ready"]


async def test_a_restore_by_command_is_no_database_that_went_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home) as gateway:
        await say(gateway, "trip", OLD)
        await command_report(home, "backup", "create")
        await say(gateway, "trip", NEW)
        assert await gateway.stop() == 0
        await command_report(home, "backup", "restore", "--yes")
        await gateway.start()
        listed = await command_report(home, "sessions", "recovered", "list")
        assert listed["rolledBack"] is None
        assert [row["key"] for row in listed["recovered"]] == ["agent:main:trip"]
        discarded = await command_report(home, "sessions", "recovered", "discard", "--all")
        assert len(discarded["discarded"]) == 1
        listed = await command_report(home, "sessions", "recovered", "list")
        assert listed == {"rolledBack": None, "recovered": [], "unreadable": []}


def break_row(home: Path, text: str) -> None:
    """Flips bytes of a message in the transcript, and in no other table."""
    database = (home / "state.sqlite").read_bytes()
    expected = b'"type":"text","text":"' + text.encode() + b'"'
    at = database.index(expected) + len(expected) - 7
    (home / "state.sqlite").write_bytes(database[:at] + b"\xff" * 5 + database[at + 5 :])


async def test_a_row_that_no_file_has_is_given_up_by_command_and_all_is_sound_again(  # noqa: PLR0915 - one story
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with running_gateway(home=home) as gateway:
        await say(gateway, "trip", OLD)
        assert await gateway.stop() == 0
        break_row(home, "old 1")
        refused = await command_report(home, "sessions", "recovered", "accept", "--all")
        assert [row["failed"] for row in refused["accepted"]] == [True]  # `import` mends it
        for file in (home / "agents" / "main" / "sessions").glob("*.jsonl"):
            file.unlink()
        await gateway.start()
        assert await user_texts(gateway, "trip") == ["old 0", "old 2"]
        async with GatewayClient(gateway.address) as client:
            health = await client.request("health", {"probe": True})
        assert "accept" in health["storage"]["remedy"]
        doctor = {row["name"]: row for row in await command_report(home, "doctor")}
        assert "accept" in doctor["database"]["remedy"]
        (bad,) = (await command_report(home, "sessions", "recovered", "list"))["unreadable"]
        name = f"{bad['session_id']}:{bad['seq']}"
        running = await skerry(home, "sessions", "recovered", "accept", name)
        assert (running.returncode, b"stop" in running.stderr.lower()) == (1, True)
        assert await gateway.stop() == 0

        wrong = await skerry(home, "sessions", "recovered", "accept", f"{bad['session_id']}:1")
        assert (wrong.returncode, b"recovered list" in wrong.stderr) == (1, True)
        done = await command_report(home, "sessions", "recovered", "accept", name)
        assert [(row["entry"], row["failed"]) for row in done["accepted"]] == [(name, False)]
        lines = (home / "recovered" / "accepted.jsonl").read_text().splitlines()
        assert [(row["session_id"], row["seq"]) for row in map(json.loads, lines)] == [
            (bad["session_id"], 3)
        ]
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            health = await client.request("health", {"probe": True})
            history = await client.request("chat.history", {"sessionKey": "trip"})
        assert (health["ok"], health["storage"]["state"]) == (True, "ok")
        texts = [message["content"][0]["text"] for message in history["messages"]]
        assert (texts[0], texts[3:5]) == ("old 0", ["echo: old 1", "old 2"])
        assert texts[2].startswith("⚠️ This message was unreadable")
        doctor = {row["name"]: row for row in await command_report(home, "doctor")}
        assert doctor["database"]["level"] == "ok"
        await say(gateway, "trip", ["it goes on"])
        assert await gateway.stop() == 0
        assert await disagreements(home) == []
