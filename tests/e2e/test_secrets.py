"""A secret in every place where one can be, and a look at all that the gateway writes or sends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.infra.atomic import write_atomic
from skerry.testing.gateway import GatewayProcess, model_config
from skerry.testing.model_server import StatusReply, StubModelServer
from skerry.testing.telegram_server import TelegramServer
from tests.support.cli import run_command_text
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected, request

PLACES: Final = ("token", "key", "variable", "env", "header", "url", "plugin")
SECRETS: Final = {place: f"canary{place}0123456789abcdef" for place in PLACES}
CONFIGURATION: Final = {"skerry.json", "skerry.json.last-good"}
ASKED: Final = (
    "config.get",
    "config.schema",
    "status",
    "health",
    "models.list",
    "sessions.list",
    "chat.history",
    "logs.tail",
    "commands.list",
    "system-presence",
    "node.list",
    "device.pair.list",
)


def configuration(base_url: str, plugin: Path) -> dict[str, Any]:
    """Returns a configuration with a secret in every place that can have one."""
    whole = model_config(base_url)
    provider = whole["models"]["providers"]["test"]
    provider["apiKey"] = SECRETS["key"]
    provider["headers"] = {"x-team-token": SECRETS["header"]}
    whole["models"]["providers"]["other"] = {
        "baseUrl": f"http://ada:{SECRETS['url']}@127.0.0.1:9/v1",
        "apiKey": "${CANARY_KEY}",
        "models": [{"id": "none"}],
    }
    return whole | {
        "gateway": {"auth": {"token": SECRETS["token"]}},
        "env": {"vars": {"CANARY_VAR": SECRETS["env"]}},
        "plugins": {
            "load": {"paths": [str(plugin)]},
            "entries": {plugin.stem: {"config": {"apiKey": SECRETS["plugin"]}}},
        },
    }


def children(pid: int) -> Iterator[int]:
    """Yields the process and all that it started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield from children(int(child))


def titles(gateway: GatewayProcess) -> str:
    found = (Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(gateway.pid))
    return b"\n".join(found).decode(errors="replace")


async def talk(wire: Wire) -> None:
    """Makes the gateway log and print much, also about a model that repeats its request."""
    for number in range(2):
        message = {"sessionKey": "main", "message": "hi", "idempotencyKey": f"run{number}"}
        await wire.send(request("agent", message, id=f"run{number}"))
        await wire.event("chat", state=("final", "error")[number])
    for method in ASKED:
        params = {"sessionKey": "main"} if method == "chat.history" else {}
        await wire.ask(method, params)
    wrong = {"raw": '{"gateway": {"typo": 1}}', "baseHash": "x"}
    await wire.ask("config.set", wrong)


def commands(home: Path) -> str:
    """Returns the output of the commands that describe the gateway."""
    environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home), "CANARY_KEY": SECRETS["variable"]}
    text = ""
    for arguments in (
        ("doctor",),
        ("doctor", "--json"),
        ("config", "get"),
        ("config", "validate"),
        ("models", "list", "--json"),
        ("plugins", "list", "--json"),
        ("sessions", "list", "--json"),
        ("logs",),
    ):
        completed = run_command_text(*arguments, environ=environ)
        text += completed.stdout + completed.stderr
    return text


async def test_no_secret_leaves_its_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    plugin = tmp_path / "quiet.py"
    plugin.write_text("def register(api):\n    pass\n")
    plugin.chmod(0o600)
    repeated = json.dumps({"error": {"message": f"bad {SECRETS['key']} {SECRETS['header']}"}})
    async with StubModelServer([["hello"], [StatusReply(401, repeated.encode())]]) as model:
        whole = configuration(model.base_url, plugin)
        write_atomic(home / "skerry.json", msgspec.json.encode(whole))
        gateway = GatewayProcess(
            home,
            arguments=["--model", "configured"],
            environ={"CANARY_KEY": SECRETS["variable"]},
        )
        try:
            await gateway.start()
            async with connected(gateway.address.url, auth={"token": SECRETS["token"]}) as wire:
                await talk(wire)
            shown = commands(home)
            said = titles(gateway)
            await gateway.stop()
        finally:
            await gateway.end()
        sent = model.requests[0].headers
    assert sent["authorization"] == f"Bearer {SECRETS['key']}"
    assert sent["x-team-token"] == SECRETS["header"]
    written = {
        str(path.relative_to(home)): path.read_bytes().decode(errors="replace")
        for path in home.rglob("*")
        if path.is_file() and path.name not in CONFIGURATION
    }
    assert any(name.endswith(".jsonl") for name in written)
    everything = written | {
        "frames": json.dumps(wire.frames),
        "titles": said,
        "commands": shown,
        # The address with the token, on standard output, is how the owner gets to the page.
        "output": "\n".join(line for line in gateway.output if "#token=" not in line),
        "errors": capfd.readouterr().err,
    }
    leaks = [
        (place, where)
        for place, secret in SECRETS.items()
        for where, text in everything.items()
        if secret in text
    ]
    assert leaks == []
    assert {(home / name).stat().st_mode & 0o777 for name in CONFIGURATION} == {0o600}


@pytest.mark.abuse(92)
async def test_a_platform_that_repeats_the_token_of_an_account_shows_it_to_nobody(
    tmp_path: Path,
) -> None:
    async with TelegramServer() as server:
        telegram = {
            "botToken": server.token,
            "apiRoot": server.root,
            "dmPolicy": "open",
            "allowFrom": ["*"],
        }
        repeated = f"no such method: /bot{server.token}/call"
        async with whole_gateway(
            tmp_path / "home", Hooks(), config={"channels": {"telegram": telegram}}
        ) as (_, address):
            server.fail("sendMessage", 403, repeated)
            server.fail("sendMessage", 500, repeated)
            server.say("one")
            server.say("two", user=8)
            async with GatewayClient(address, scopes=("operator.read",)) as client:
                rows: Any = {}
                with anyio.fail_after(60):
                    while json.dumps(rows).count("no such method") < 2:
                        rows = await client.request("outbox.list")
                server.fail("getMe", 401, repeated)
                status = await client.request("channels.status", {"probe": True})
        shown = json.dumps([status, rows])
        assert shown.count("no such method: /bot[redacted]/call") >= 3
        assert server.token not in shown
