"""Forgotten text is in no byte of the state directory and the workspace, also later."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
import pytest

from skerry.hooks.hooks import Hooks
from skerry.model.ids import AgentId
from skerry.store import backups
from skerry.store.backups import BackupKind
from tests.support.cli import run_command
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

WORD = "zebra"
FACT = "The code of my locker is zebra quokka."
CALL = 'call memory_forget {"text": "zebra quokka"}'
NUMBERS = count()


def holding(home: Path, *words: bytes) -> Iterator[Path]:
    """Yields the files with one of the words, whatever its case; copies that are kept are none."""
    for path in sorted(home.rglob("*")):
        beneath = path.relative_to(home).parts
        if not path.is_file() or beneath[0] == "backups" or path.name.endswith("-shm"):
            continue
        data = path.read_bytes().lower()
        if any(word in data for word in words):
            yield path.relative_to(home)


async def say(wire: Wire, text: str, key: str = "main") -> dict[str, Any]:
    number = str(next(NUMBERS))  # ids stay: no word of the text may be in one
    params = {"sessionKey": key, "idempotencyKey": number, "message": text}
    await wire.send({"type": "req", "id": "run", "method": "chat.send", "params": params})
    event = await wire.event("chat", state="final")
    wire.frames.clear()
    return event


async def told_everywhere(wire: Wire, workspace: Path) -> None:
    """Lets it stand wherever it can."""
    await say(wire, f"Hello. {FACT} It rains.")
    await say(wire, 'call memory_write {"text": "The code is Zebra quokka."}')
    await say(wire, FACT, "agent:main:side")
    await wire.call("memory.write", {"text": f"I have tea. {FACT}", "section": "Codes"})
    await wire.call("sessions.patch", {"key": "agent:main:side", "label": "About Zebra quokka"})
    (workspace / "memory/2026-01-02.md").write_text(f"# Day\n\n- {FACT}\n- It rained.\n")
    with (workspace / "USER.md").open("a") as file:
        file.write(f"\n{FACT}\n")
    await wire.call("memory.sync", {"force": True})
    payload = await wire.call("memory.search", {"query": "zebra"})
    assert len(payload["results"]) >= 3


async def erased(home: Path) -> None:
    """Waits until the last run has ended and its text is erased too."""
    with anyio.move_on_after(60):
        while list(holding(home, b"zebra", b"quokka")):  # noqa: ASYNC110 - of files nobody is told
            await anyio.sleep(0.05)
    assert list(holding(home, b"zebra", b"quokka")) == []


async def test_it_is_in_no_byte_of_any_file_and_the_rest_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks()) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        workspace = application.settings.config.workspace(AgentId("main"))
        await told_everywhere(wire, workspace)
        before = await wire.call("memory.forget", {"phrases": ["zebra quokka"], "dryRun": True})
        assert len(list(holding(home, b"zebra"))) >= 7
        assert {line["path"] for line in before["lines"]} >= {"MEMORY.md", "USER.md"}
        payload = await wire.call("memory.forget", {"phrases": ["zebra quokka"]})
        for place in ("messages", "runs", "labels", "conversations"):
            assert payload[place] == before[place] > 0, place
        assert (payload["done"], payload["waits"], payload["left"]) == (True, 0, [])
        assert len(payload["lines"]) == len(before["lines"])
        assert list(holding(home, b"zebra", b"quokka")) == []
        history = await wire.call("chat.history", {"sessionKey": "main"})
        assert "Hello. [forgotten] It rains." in str(history)
        assert (workspace / "memory/2026-01-02.md").read_text() == "# Day\n\n- It rained.\n"
        found = await wire.call("memory.search", {"query": "zebra"})
        assert not any("zebra" in result["text"].lower() for result in found["results"])
        found = await wire.call("memory.search", {"query": "it rained"})
        assert any("It rained" in result["text"] for result in found["results"])
    assert list(holding(home, b"zebra", b"quokka")) == []


async def test_copied_files_jobs_and_their_log_are_reached(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        sent, received = home / "media/outbound", home / "media/inbound"
        for folder in (sent, received):
            folder.mkdir(parents=True)
        (sent / "00000000000000a1-locker.txt").write_text(f"Dear Ann, {FACT}")
        (sent / "00000000000000a2-utf.txt").write_text(FACT, "utf-16")
        picture = received / "00000000000000a3-photo.jpg"
        other = received / "00000000000000a4-boat.jpg"
        for path in (picture, other):
            path.write_bytes(b"\xff\xd8\xff of no words")
        await say(wire, f"{FACT}\n\n[Image photo.jpg, 16 bytes: stored as {picture}]")
        await say(wire, f"A boat.\n\n[Image boat.jpg, 16 bytes: stored as {other}]")
        job = {"name": "Locker", "schedule": {"kind": "every", "everyMs": 3_600_000}}
        payload = {"kind": "agentTurn", "message": f"Remind me. {FACT} Say it."}
        added = await wire.call(
            "cron.add", {**job, "payload": payload, "sessionTarget": "isolated"}
        )
        before = await wire.call("memory.forget", {"phrases": ["zebra quokka"], "dryRun": True})
        assert (before["records"], before["media"]) == (1, 2)
        done = await wire.call("memory.forget", {"phrases": ["zebra quokka"]})
        assert (done["records"], done["media"]) == (1, 3)
        left = await wire.call("cron.get", {"id": added["id"]})
        assert left["payload"]["message"] == "Remind me. [forgotten] Say it."
        assert left["schedule"] == added["schedule"]
        assert [path.name for path in home.glob("media/*/*")] == [other.name]
    assert list(holding(home, b"zebra", b"quokka")) == []


@pytest.mark.full("ten seconds")
async def test_what_a_reader_of_the_database_held_up_is_done_soon_after_it_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        await say(wire, f"Hello. {FACT}")
        with closing(sqlite3.connect(home / "state.sqlite")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            payload = await wire.call("memory.forget", {"phrases": ["zebra quokka"]})
            assert (payload["done"], list(holding(home, b"zebra")) != []) == (False, True)
            with anyio.fail_after(60):
                while "the erasure is not complete" not in caplog.text:  # noqa: ASYNC110 - of a log nobody is told
                    await anyio.sleep(0.05)
        await erased(home)


async def test_the_model_forgets_and_its_own_request_goes_when_its_run_has_ended(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks()) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        await told_everywhere(wire, application.settings.config.workspace(AgentId("main")))
        await say(wire, CALL)
        await erased(home)
        history = str(await wire.call("chat.history", {"sessionKey": "main"}))
        assert "memory_forget" in history
        assert '\\"waits\\":1' in history.replace(" ", "") or '"waits":1' in history
        await say(wire, "/forget it rains")
        history = str(await wire.call("chat.history", {"sessionKey": "main"}))
        assert "Forgotten: " in history


async def test_a_person_is_shown_what_would_go_and_what_still_has_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with (
        whole_gateway(home, Hooks()) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        await say(wire, f"Hello. {FACT}")
        backup = backups.create(home, BackupKind.MANUAL, application.context.clock.now_ms())
        log = application.settings.config.workspace(AgentId("main")) / "memory/2026-01-02.md"
        log.write_text(f"- {FACT}\n- Tea.\n")

        async def skerry(*arguments: str) -> CompletedProcess[bytes]:
            given = ("--url", address.url, "--token", address.token or "")
            environ = {"PATH": os.environ["PATH"], "HOME": str(home), "SKERRY_STATE_DIR": str(home)}
            return await run_command("memory", "forget", *arguments, *given, environ=environ)

        looked = await skerry("ZEBRA quokka", "--dry-run")
        shown = looked.stdout.decode()
        assert f"memory/2026-01-02.md:1  {FACT}" in shown
        assert "Would be erased: 1 statement in files, 2 messages, 1 run of the ledger" in shown
        completed = await skerry("ZEBRA quokka")
        assert (completed.returncode, b"--yes" in completed.stderr) == (1, True)
        assert FACT in log.read_text()
        done = (await skerry("ZEBRA quokka", "--yes")).stdout.decode()
        assert "Forgotten: 1 statement in files, 2 messages" in done
        assert f"  {backup.name}. It is kept until you delete it: rm " in done
        assert log.read_text() == "- Tea.\n"
        again = await skerry("ZEBRA quokka", "--dry-run", "--json")
        report = json.loads(again.stdout)
        assert (report["messages"], report["lines"], len(report["backups"])) == (0, [], 1)


@pytest.mark.parametrize("text", ["ab", "x" * 1001])
async def test_a_phrase_that_would_hit_everything_is_refused(tmp_path: Path, text: str) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        answer = await wire.ask("memory.forget", {"phrases": [text]})
        assert not answer["ok"]
