"""`skerry gateway status` and `call` as processes, against a scripted gateway."""

import json

import pytest

from skerry.cli.gateway import duration
from tests.support.fake_gateway import TOKEN, Exchange, FakeGateway

from .conftest import Command


async def test_call_prints_the_answer(gateway: FakeGateway, command: Command) -> None:
    gateway.answer("sessions.list", {"count": 1, "note": "é\x1b[31m"})
    completed = await command("gateway", "call", "sessions.list", "--params", '{"limit": 5}')
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert json.loads(completed.stdout)["count"] == 1
    assert b"\x1b" not in completed.stdout
    assert gateway.requests == [("sessions.list", {"limit": 5})]


async def test_call_with_json_prints_one_line_that_keeps_every_character(
    gateway: FakeGateway, command: Command
) -> None:
    gateway.answer("echo", {"text": "é\x1b\x9b"})
    completed = await command("gateway", "call", "echo", "--json")
    assert completed.stdout.count(b"\n") == 1
    assert json.loads(completed.stdout) == {"text": "é\x1b\x9b"}


async def test_call_waits_for_the_second_answer_when_asked(
    gateway: FakeGateway, command: Command
) -> None:
    async def agent(exchange: Exchange) -> None:
        await exchange.reply({"status": "accepted"})
        await exchange.reply({"status": "ok"})

    gateway.methods["agent"] = agent
    first = await command("gateway", "call", "agent", "--json")
    last = await command("gateway", "call", "agent", "--json", "--expect-final")
    assert [json.loads(completed.stdout)["status"] for completed in (first, last)] == [
        "accepted",
        "ok",
    ]


async def test_a_refusal_is_three_lines_on_stderr(gateway: FakeGateway, command: Command) -> None:
    async def refuse(exchange: Exchange) -> None:
        code = {"code": "request.unknown_method"}
        await exchange.refuse("INVALID_REQUEST", "unknown method: \x1bnope", code)

    gateway.methods["nope"] = refuse
    completed = await command("gateway", "call", "nope", "--json")
    assert completed.returncode == 1
    assert json.loads(completed.stdout) == {
        "ok": False,
        "error": {
            "code": "request.unknown_method",
            "message": "unknown method: \x1bnope",
            "remedy": "docs/reference/protocol.md lists every method.",
            "wireCode": "INVALID_REQUEST",
        },
    }
    reason, remedy, help_line = completed.stderr.decode().splitlines()
    assert reason == "Reason: unknown method: nope"
    assert remedy == "Try: docs/reference/protocol.md lists every method."
    assert help_line == "Help: skerry gateway call --help"


async def test_status_names_what_waits_for_a_person_and_what_to_do(
    gateway: FakeGateway, command: Command
) -> None:
    plugins = {"loaded": ["a"], "failed": ["b"], "resting": ["a: agent_end"]}
    status = {
        "configuration": {"state": "last-good", "message": "f:\n - no.", "remedy": "Mend it."},
        "storage": {"state": "full", "message": "disk is full", "remedy": "Make room."},
        "plugins": plugins,
        "devices": {"pending": 2},
        "pairing": {"pending": 1},
        "channels": [
            {
                "channel": "telegram",
                "account": "default",
                "enabled": True,
                "state": "needs-login",
                "message": "Telegram refused the token.",
                "remedy": "skerry channels login telegram",
            },
            {"channel": "irc", "account": "a", "enabled": False, "state": "off", "message": "-"},
        ],
        "undelivered": {"unknown": 3},
        "budgets": [
            {"budget": "usage.budgets.day", "state": "stopped", "message": "all of it"},
            {"budget": "usage.budgets.agents.main", "state": "ok", "message": "a little"},
        ],
    }
    gateway.answer("status", status)
    lines = (await command("status")).stdout.decode().splitlines()
    assert "plugins   1 loaded, 1 failed, 1 resting" in lines
    assert "channels  telegram/default needs-login, irc/a off" in lines
    assert [line for line in lines if line.startswith("look: ")] == [
        "look: The last good configuration is used. f: - no. Try: Mend it.",
        "look: The storage is full: disk is full. Try: Make room.",
        "look: Plugins that failed: b. Try: skerry plugins list",
        (
            "look: Functions of plugins that are paused after failures: a: agent_end."
            " Try: skerry plugins list"
        ),
        "look: Devices that wait for approval: 2. Try: skerry devices list",
        "look: Senders on chat platforms who wait for approval: 1. Try: skerry pairing list",
        (
            "look: The account telegram/default is needs-login: Telegram refused the token."
            " Try: skerry channels login telegram"
        ),
        "look: usage.budgets.day: all of it. Try: skerry usage shows where it went.",
        "look: Parts of replies that did not arrive: 3 unknown. Try: skerry doctor",
    ]
    report = json.loads((await command("status", "--json")).stdout)
    assert report["attention"][0]["remedy"] == "Mend it."


async def test_status_says_how_long_a_run_lasts_by_the_clock_of_the_gateway(
    gateway: FakeGateway, command: Command
) -> None:
    rows = [
        {"key": "agent:main:main", "mode": "collect", "since": 1_000, "waiting": 2},
        {"key": "agent:main:late", "mode": "collect", "since": 9_000, "waiting": 0},
        {"key": "agent:main:next", "mode": "collect", "since": None, "waiting": 1},
    ]
    gateway.answer("health", {"ts": 500})  # kept for a minute: older than the runs
    gateway.answer("status", {"queue": {"at": 6_000, "sessions": rows}})
    out = (await command("status")).stdout.decode()
    assert "agent:main:main  runs for 5 s, 2 waiting, collect" in out
    assert "agent:main:late  runs for 0 s, 0 waiting, collect" in out
    assert "agent:main:next  waits for a free lane, 1 waiting, collect" in out


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h"), (90_061_000, "1 d 1 h")],
)
def test_a_time_is_told_in_its_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


async def test_a_method_that_is_nearly_right_is_named(
    gateway: FakeGateway, command: Command
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.refuse("FORBIDDEN", "missing scope", {"code": "MISSING_SCOPE"})

    gateway.methods["sesions.list"] = refuse
    gateway.features = {"methods": ["health", "sessions.list"]}
    completed = await command("gateway", "call", "sesions.list")
    assert b"Try: Did you mean sessions.list?" in completed.stderr


async def test_no_answer_in_time_has_a_code_of_its_own(
    gateway: FakeGateway, command: Command
) -> None:
    async def silent(exchange: Exchange) -> None:
        pass

    gateway.methods["silent"] = silent
    completed = await command("gateway", "call", "silent", "--timeout", "0.01")
    assert completed.returncode == 124
    assert b"Try: Raise the limit with --timeout." in completed.stderr


async def test_parameters_that_are_no_object_are_wrong_usage(command: Command) -> None:
    for params in ("{", "[1]"):
        assert (await command("gateway", "call", "health", "--params", params)).returncode == 2


async def test_status_says_where_it_runs_and_which_model_answers(
    gateway: FakeGateway, command: Command
) -> None:
    status = {"state": "ready", "model": {"provider": "a", "id": "b", "note": "a demonstration"}}
    gateway.answer("models.status", status)
    completed = await command("gateway", "status")
    assert completed.returncode == 0
    text = completed.stdout.decode()
    page = f"{gateway.url.replace('ws:', 'http:')}/ (skerry open)"
    for part in (gateway.url, page, "0.0.test", "a/b - a demonstration", "1 min 1 s"):
        assert part in text
    assert TOKEN not in text
    assert gateway.connects[0]["scopes"] == ["operator.read"]


async def test_status_asks_a_gateway_without_that_method_for_its_models(
    gateway: FakeGateway, command: Command
) -> None:
    async def unknown(exchange: Exchange) -> None:
        await exchange.refuse("INVALID_REQUEST", "unknown method")

    gateway.methods["models.status"] = unknown
    completed = await command("gateway", "status", "--json")
    assert json.loads(completed.stdout)["model"] == "scripted/tiny"


async def test_status_of_no_gateway_fails_and_says_how_to_start_one(
    command: Command, environ: dict[str, str]
) -> None:
    environ["SKERRY_GATEWAY_PORT"] = "1"
    completed = await command("gateway", "status", "--json")
    assert completed.returncode == 1
    assert json.loads(completed.stdout)["running"] is False
    assert b"skerry gateway run" in completed.stderr


async def test_a_wrong_configuration_is_named_in_full(
    command: Command, environ: dict[str, str]
) -> None:
    environ["SKERRY_GATEWAY_PORT"] = "none"
    completed = await command("gateway", "status")
    assert completed.returncode == 1
    assert b"SKERRY_GATEWAY_PORT: it must be a port" in completed.stderr


async def test_status_shows_no_password(gateway: FakeGateway, command: Command) -> None:
    gateway.snapshot = {"authMode": "password"}
    text = (await command("status")).stdout.decode()
    assert (TOKEN in text, gateway.url.replace("ws:", "http:") in text) == (False, True)
