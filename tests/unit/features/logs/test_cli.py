"""`skerry logs` as a process, against a scripted gateway and against the file it left."""

import json
from pathlib import Path
from typing import Any

from tests.support.fake_gateway import Exchange, FakeGateway

from .conftest import Command

LINE = {
    "time": "2026-11-21T20:56:00.000Z",
    "level": "warning",
    "logger": "a.b",
    "message": "it\x1b[31m broke",
    "error": "Traceback\nValueError",
}


def log_page(*lines: str, file: str = "/x.log", cursor: int = 5) -> dict[str, Any]:
    about = {"file": file, "cursor": cursor, "size": cursor, "truncated": False, "reset": False}
    return {**about, "lines": list(lines)}


async def test_the_log_is_asked_of_the_gateway(gateway: FakeGateway, command: Command) -> None:
    gateway.answer("logs.tail", log_page(json.dumps(LINE | {"0": "x", "_meta": {}}), "no json\x1b"))
    completed = await command("logs", "--lines", "7")
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert completed.stdout.decode().splitlines() == [
        "2026-11-21T20:56:00.000Z warning a.b: it[31m broke",
        "Traceback",
        "ValueError",
        "no json",
    ]
    assert gateway.requests == [("logs.tail", {"limit": 7, "maxBytes": 1_000_000})]
    assert gateway.connects[0]["scopes"] == ["operator.read"]


async def test_with_json_each_line_is_an_object(gateway: FakeGateway, command: Command) -> None:
    gateway.answer("logs.tail", log_page(json.dumps(LINE | {"0": "x"}), "no json"))
    completed = await command("logs", "--json")
    assert [json.loads(line) for line in completed.stdout.splitlines()] == [
        LINE,
        {"message": "no json"},
    ]


async def test_without_a_gateway_its_file_is_read(
    command: Command, environ: dict[str, str]
) -> None:
    environ["SKERRY_GATEWAY_PORT"] = "1"
    folder = Path(environ["SKERRY_STATE_DIR"]) / "logs"
    folder.mkdir(parents=True)
    lines = [json.dumps(LINE | {"message": str(number)}) for number in range(5)]
    (folder / "skerry-2026-11-21.log").write_text("\n".join(lines) + "\n")
    completed = await command("logs", "--lines", "2", "--json")
    assert [json.loads(line)["message"] for line in completed.stdout.splitlines()] == ["3", "4"]
    assert f"No gateway is running. Showing its log from {folder}." in completed.stderr.decode()


async def test_another_machines_log_is_not_taken_from_here(command: Command) -> None:
    completed = await command("logs", "--url", "ws://127.0.0.1:1", "--token", "x")
    assert completed.returncode == 1
    assert b"No gateway answers at ws://127.0.0.1:1" in completed.stderr


async def test_following_goes_on_where_it_was_and_begins_each_new_file(
    gateway: FakeGateway, command: Command
) -> None:
    answers = [
        log_page("a", cursor=3),
        log_page("b", cursor=9),
        log_page("lost", file="/y.log", cursor=4),
        log_page("c", file="/y.log", cursor=6),
    ]

    async def log(exchange: Exchange) -> None:
        if answers:
            await exchange.reply(answers.pop(0))
        else:
            await exchange.refuse("UNAVAILABLE", "enough")

    gateway.methods["logs.tail"] = log
    completed = await command("logs", "--follow")
    assert completed.stdout.decode().split() == ["a", "b", "c"]
    assert b"enough" in completed.stderr
    asked = [params.get("cursor") for _, params in gateway.requests]
    assert asked == [None, 3, 9, 0, 6]


async def test_too_many_lines_are_wrong_usage(command: Command) -> None:
    assert (await command("logs", "--lines", "5001")).returncode == 2
