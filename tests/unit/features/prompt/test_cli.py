"""`skerry prompt show` as a process, with and without a gateway."""

import json

from tests.support.fake_gateway import FakeGateway

from .conftest import Command

SHOWN = {
    "sessionKey": "agent:main:main",
    "sessionId": None,
    "model": "p/m",
    "systemPrompt": "You are\x1b[31m Pebble.",
    "parts": [{"name": "base", "chars": 900, "tokens": 225, "share": 0.9}],
    "files": [{"name": "SOUL.md", "rawChars": 30000, "chars": 20000, "truncated": True}],
    "chars": 1000,
    "tokens": 250,
    "entries": 4,
    "contextTokens": 1234,
    "notes": ["Plugins may add to it."],
}


async def test_it_prints_the_prompt_or_what_its_parts_cost(
    gateway: FakeGateway, command: Command
) -> None:
    gateway.answer("prompt.show", SHOWN)
    whole = await command("prompt", "show")
    assert whole.stdout == b"You are[31m Pebble.\n"
    assert b"--sizes" in whole.stderr
    sizes = (await command("prompt", "show", "--sizes", "--session", "work")).stdout.decode()
    assert "base      900         225           90%" in sizes
    assert "SOUL.md  30000       20000          cut" in sizes
    assert "1234 tokens" in sizes
    assert gateway.requests[-1] == ("prompt.show", {"sessionKey": "work"})
    as_json = await command("prompt", "show", "--json")
    assert json.loads(as_json.stdout) == SHOWN


async def test_without_a_gateway_it_says_what_to_do(
    environ: dict[str, str], command: Command
) -> None:
    environ["SKERRY_GATEWAY_PORT"] = "1"
    completed = await command("prompt", "show")
    assert completed.returncode == 1
    assert b"skerry gateway run" in completed.stderr
