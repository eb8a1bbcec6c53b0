"""`skerry sessions`, against a gateway that runs, and the mirrors of one that does not."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skerry.client.client import GatewayClient
from skerry.features.sessions import cli_transcripts as transcripts
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.support.cli import run_command


async def skerry(home: Path, *arguments: str) -> CompletedProcess[bytes]:
    environ = {**os.environ, "SKERRY_STATE_DIR": str(home)}
    return await run_command("sessions", *arguments, environ=environ)


async def printed(home: Path, *arguments: str) -> str:
    completed = await skerry(home, *arguments)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.decode()


async def send_message(gateway: GatewayProcess, text: str, key: str = "main") -> None:
    async with GatewayClient(gateway.address) as client:
        params = {"message": text, "sessionKey": key, "idempotencyKey": f"{key} {text!a}"}
        await client.request("agent", params, expect_final=True)


async def test_conversations_are_listed_found_and_named(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        assert await printed(tmp_path, "list") == "No conversations.\n"
        await send_message(gateway, "hello there")
        await send_message(gateway, "where to?", "trip")
        listed = await printed(tmp_path, "list")
        assert listed.splitlines()[0].split() == ["KEY", "LAST", "USED", "TOKENS", "TITLE"]
        assert "agent:main:trip" in listed
        assert "hello there" in listed
        (row,) = json.loads(await printed(tmp_path, "list", "--search", "WHERE", "--json"))
        assert row["key"] == "agent:main:trip"
        await printed(tmp_path, "rename", "trip", "Holidays")
        (row,) = json.loads(await printed(tmp_path, "list", "--search", "holi", "--json"))
        assert row["label"] == "Holidays"
        assert "echo: where to?" in await printed(tmp_path, "show", "Holidays")
        assert await printed(tmp_path, "list", "--agent", "other") == "No conversations.\n"


async def test_a_conversation_is_shown_and_exported(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "first")
        await send_message(gateway, "über `` ``` alles")
        shown = await printed(tmp_path, "show", "main")
        assert shown.splitlines()[1] == "  first"
        messages = json.loads(await printed(tmp_path, "show", "main", "--json"))["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"] * 2
        target = tmp_path / "chat.md"
        await printed(tmp_path, "export", "main", "--format", "markdown", "--output", str(target))
        assert "über `` ``` alles" in target.read_text()
        exported = await printed(tmp_path, "export", "main")
        assert exported == await printed(tmp_path, "show", "main", "--jsonl")
        assert await gateway.stop() == 0
        (mirror,) = tmp_path.glob("agents/main/sessions/*.jsonl")
        assert exported == mirror.read_text()


async def test_a_conversation_is_restored_by_its_name(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "where to?", "trip")
        await printed(tmp_path, "rename", "trip", "Holidays")
        await printed(tmp_path, "delete", "Holidays")
        assert "agent:main:trip was restored" in await printed(tmp_path, "restore", "Holidays")


async def test_a_compacted_conversation_is_exported_with_its_summaries(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        for number in range(4):
            await send_message(gateway, f"{number} " + "so much was said " * 12)
        await send_message(gateway, "/compact")
        await send_message(gateway, "and on it went")
        exported = await printed(tmp_path, "export", "main")
        assert "Compaction" in await printed(tmp_path, "show", "main")
        assert await gateway.stop() == 0
        (mirror,) = tmp_path.glob("agents/main/sessions/*.jsonl")
        assert exported == mirror.read_text()
    (summary,) = (line for line in exported.splitlines() if '"type":"compaction"' in line)
    assert "so much was said" in json.loads(summary)["summary"]


async def test_a_long_conversation_is_exported_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.features.sessions.cli_transcripts.PAGE", 3)
    async with running_gateway(home=tmp_path) as gateway:
        for number in range(5):
            await send_message(gateway, f"m{number}")
        async with GatewayClient(gateway.address) as client:
            whole = await transcripts.read(client, "main", None)
        assert [message["__openclaw"]["seq"] for message in whole.messages] == list(range(1, 11))


async def test_delete_and_reset_are_undone(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "keep me", "trip")
        deleted = await skerry(tmp_path, "delete", "trip")
        assert deleted.stdout == b"agent:main:trip was deleted.\n"
        undo = deleted.stderr.decode().strip().removeprefix("Undo it: skerry sessions ").split()
        assert await printed(tmp_path, "list") == "No conversations.\n"
        assert undo[1] in await printed(tmp_path, "list", "--archived")
        assert "keep me" in await printed(tmp_path, "show", undo[1])
        assert await printed(tmp_path, *undo) == "agent:main:trip was restored.\n"
        reset = json.loads(await printed(tmp_path, "reset", "trip", "--json"))
        assert reset["entry"]["sessionId"] != reset["restore"] == undo[1]
        assert await printed(tmp_path, "show", "trip") == ""
        assert await printed(tmp_path, "restore", "trip") == "agent:main:trip was restored.\n"
        assert "keep me" in await printed(tmp_path, "show", "trip")


async def test_what_is_archived_cannot_be_deleted_in_the_name_of_what_took_its_place(
    tmp_path: Path,
) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "first", "trip")
        first = json.loads(await printed(tmp_path, "reset", "trip", "--json"))["restore"]
        await send_message(gateway, "second", "trip")
        for command in ("delete", "reset"):
            refused = await skerry(tmp_path, command, first)
            assert f"skerry sessions restore {first}" in refused.stderr.decode()
            assert refused.returncode == 1
        assert "second" in await printed(tmp_path, "show", "trip")


async def test_what_cannot_be_done_is_said_with_a_remedy(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "hi")
        main = await skerry(tmp_path, "delete", "main")
        assert main.returncode == 1
        assert b"Cannot delete the main session" in main.stderr
        missing = await skerry(tmp_path, "show", "nothing")
        assert b"No conversation is named 'nothing'." in missing.stderr
        assert b"sessions list" in missing.stderr
        assert await gateway.stop() == 0
    alone = await skerry(tmp_path, "list")
    assert alone.returncode == 1
    assert b"skerry gateway run" in alone.stderr


async def test_lost_mirrors_are_written_again_once_the_gateway_is_stopped(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "hi")
        refused = await skerry(tmp_path, "mirror")
        assert refused.returncode == 1
        assert str(gateway.pid) in refused.stderr.decode()
        assert await gateway.stop() == 0
    (transcript,) = tmp_path.glob("agents/main/sessions/*.jsonl")
    before = transcript.read_bytes()
    transcript.unlink()
    (tmp_path / "agents/main/sessions/sessions.json").unlink()
    assert json.loads(await printed(tmp_path, "mirror", "--json"))["transcripts"] == 1
    assert transcript.read_bytes() == before
    assert "agent:main:main" in (tmp_path / "agents/main/sessions/sessions.json").read_text()


async def test_what_was_said_is_found_and_what_is_old_named_before_it_goes(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "the blue boat")
        await send_message(gateway, "/new a red house")
        await send_message(gateway, "blue skies", "trip")
        found = await printed(tmp_path, "search", "blue")
        assert "agent:main:main, earlier session" in found
        assert "user: blue skies" in found
        only = json.loads(
            await printed(tmp_path, "search", "blue", "--session", "main", "--json", "--limit", "1")
        )
        assert [hit["text"] for hit in only["hits"]] == ["the blue boat"]
        assert "No message has these words" in await printed(tmp_path, "search", "zebra")
        assert "No session is beyond the limits" in await printed(tmp_path, "prune", "--dry-run")
        path = tmp_path / "skerry.json"
        config = json.loads(path.read_text())
        config["session"] = {"maintenance": {"maxEntries": 1}}
    path.write_text(json.dumps(config))
    async with running_gateway(home=tmp_path):
        planned = await printed(tmp_path, "prune", "--dry-run")
        assert "agent:main:trip" in planned
        assert "agent:main:trip" in await printed(tmp_path, "list")
        report = json.loads(await printed(tmp_path, "prune", "--json"))
        assert [row["key"] for row in report["archived"]] == ["agent:main:trip"]
        assert report["removed"] == []
        assert "agent:main:trip" not in await printed(tmp_path, "list")
        assert "agent:main:trip" in await printed(tmp_path, "list", "--archived")
        await printed(tmp_path, "restore", "trip")
        assert "agent:main:trip" in await printed(tmp_path, "list")


async def test_a_search_gives_as_many_hits_as_it_is_asked_for(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await send_message(gateway, "the blue boat")
        await send_message(gateway, "blue skies", "trip")
        both = json.loads(await printed(tmp_path, "search", "blue", "--json"))["hits"]
        assert {"the blue boat", "blue skies"} <= {row["text"] for row in both}
        first = json.loads(await printed(tmp_path, "search", "blue", "--json", "--limit", "1"))
        assert first["hits"] == both[:1]
        refused = await skerry(tmp_path, "search", "blue", "--limit", "51")
        assert (refused.returncode, b"--limit" in refused.stderr) == (2, True)


async def test_an_exported_conversation_is_imported_once_elsewhere(tmp_path: Path) -> None:
    path, there = tmp_path / "here", tmp_path / "there"
    async with running_gateway(home=path) as gateway:
        await send_message(gateway, "über alles", "trip")
        exported = tmp_path / "trip.jsonl"
        await printed(path, "export", "trip", "--output", str(exported))
        refused = await skerry(path, "import", str(exported))
        assert refused.returncode == 1
        assert b"already owns" in refused.stderr
        assert b"Then start it again" in refused.stderr
        assert b"Traceback" not in refused.stderr
        missing = await skerry(path, "import", str(tmp_path / "no.jsonl"))
        assert missing.returncode == 1
        assert b"No such file" in missing.stderr
        assert b"owns" not in missing.stderr
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n")
    there.mkdir()
    assert "can be imported" in await printed(there, "import", "--dry-run", str(exported))
    mixed = await skerry(there, "import", "--key", "trip", str(exported), str(broken))
    assert mixed.returncode == 1
    assert b"not the header of a session" in mixed.stdout
    again = json.loads(await printed(there, "import", str(exported), "--json"))
    assert [row["outcome"] for row in again] == ["already there"]
    folder = path / "agents" / "main" / "sessions"
    assert "already there" in await printed(there, "import", str(folder))
    async with running_gateway(home=there):
        assert "echo: über alles" in await printed(there, "show", "trip")


async def test_a_conversation_exported_as_markdown_is_imported_and_goes_on(tmp_path: Path) -> None:
    path, there = tmp_path / "here", tmp_path / "there"
    exported, other = tmp_path / "trip.md", tmp_path / "other.md"
    async with running_gateway(home=path) as gateway:
        await send_message(gateway, "# über\n\n## You, 2026-05-04 10:00", "trip")
        await printed(path, "export", "trip", "--format", "markdown", "--output", str(exported))
    exported.write_text(
        exported.read_text() + "\n## Result of read, 2026-05-04 10:00\n\n```\nx\n```\n"
    )
    other.write_text("# Notes\n\nof mine\n")
    there.mkdir()
    mixed = await skerry(there, "import", "--key", "trip", str(exported), str(other))
    assert mixed.returncode == 1
    assert b"it was not written by `skerry sessions export`" in mixed.stdout
    assert b"trip.md: 1 results of tools left out" in mixed.stderr
    assert "already there" in await printed(there, "import", str(exported))
    async with running_gateway(home=there) as gateway:
        await send_message(gateway, "and then", "trip")
        messages = json.loads(await printed(there, "show", "trip", "--json"))["messages"]
        texts = ["".join(block["text"] for block in message["content"]) for message in messages]
        words = "# über\n\n## You, 2026-05-04 10:00"
        assert texts == [words, f"echo: {words}", "and then", "echo: and then"]
