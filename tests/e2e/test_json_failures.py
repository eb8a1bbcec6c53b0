"""Each command with `--json`: a failure is one object on stdout, and an exit code that is not 0."""

import io
import json
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from skerry.cli.main import main, make_parser
from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer

LEFT = {
    "memory bench": "It measures for minutes and asks no gateway.",
    "auth login": "It waits for a person at a browser.",
    "models test": "It calls a model of this machine's, where there is one.",
    "update check": "It asks a registry.",
}
"""Commands that are not run, each with the reason."""
HERE = {
    *("auth list", "backup list", "config get", "config migrate", "config validate", "doctor"),
    *("models list", "models status", "plugins list", "hooks list", "hooks check"),
    *("service status", "files list", "sessions recovered list", "sessions mirror", "logs"),
    *(
        "memory files",
        "memory doctor",
        "memory status",
        "backup create",
        "import openclaw",
        "plugins doctor",
        "plugins new",
        "net check",
        "net fetch",
        "guard scan",
        "guard fence",
        "usage",
        "sandbox explain",
        "sandbox list",
        "sandbox recreate",
        "sandbox test",
        "audit",
        "cron preview",
        "channels list",
        "config unset",
        "exec check",
        "routing explain",
        "security audit",
        "mcp add",
        "service uninstall",
        "skills check",
        "skills list",
        "tools explain",
        "tools list",
    ),
}
"""Commands that may succeed without a gateway: they read or write files of this machine."""
STATES = {"status", "gateway status", "service status"}
"""Commands whose answer is the state; they exit with 1 where nothing runs."""


def commands(parser: ArgumentParser | None = None) -> Iterator[ArgumentParser]:
    """Gives each command that has `--json` and prints JSON by it."""
    parser = parser or make_parser()
    groups = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    for group in groups:
        for fromkey in dict.fromkeys(group.choices.values()):
            yield from commands(fromkey)
    if not groups and any(action.dest == "json" for action in parser._actions):
        yield parser


COMMANDS = {command.prog.removeprefix("skerry "): command for command in commands()}


def words(name: str, *options: str, given: str = "7") -> list[str]:
    """Returns a command with these options and with all that it must be given."""
    needed = (
        [*action.option_strings[-1:], given]
        for action in COMMANDS[name]._actions
        if action.required or (not action.option_strings and action.nargs in {"?", "*"})
    )
    return [*name.split(), "--json", *options, *(word for some in needed for word in some)]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Runs a command; returns its exit code and its parsed standard output."""
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as error:
        code = int(str(error.code))
    out = capsys.readouterr().out
    try:
        return code, json.loads(out)
    except ValueError:
        return code, [json.loads(line) for line in out.splitlines()]


def is_failure(payload: Any) -> bool:
    """Returns whether the object describes a failure with a remedy."""
    error = payload.get("error", {}) if isinstance(payload, dict) else {}
    return payload.get("ok") is False and all(
        error.get(one) for one in ("code", "message", "remedy")
    )


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path / "home"))
    monkeypatch.setenv("SKERRY_GATEWAY_PORT", "1")
    monkeypatch.setenv("SKERRY_GATEWAY_TOKEN", "x")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_usage_is_told_as_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = run(capsys, *words(name, "--no-such-option"))
    assert code == 2
    assert is_failure(told)


@pytest.mark.full("half a minute")
@pytest.mark.parametrize("name", [command for command in COMMANDS if command not in LEFT])
def test_without_a_gateway_a_command_fails_as_json_or_does_its_work(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run(capsys, *words(name))
    if name in STATES:
        assert (code, told.get("running", told.get("installed"))) == (1, False)
    elif code == 0:
        assert name in HERE, told
    else:
        assert is_failure(told)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def gateway() -> AsyncIterator[GatewayProcess]:
    async with (
        StubModelServer(lambda _: ["hi"]) as model,
        running_gateway(model=model.base_url) as running,
    ):
        yield running


ASKING = sorted(
    name
    for name, argument_parser in COMMANDS.items()
    if name not in LEFT
    and any("--token" in action.option_strings for action in argument_parser._actions)
)
"""Commands that ask a gateway."""


@pytest.mark.full("half a minute")
@pytest.mark.parametrize("name", [one for one in ASKING if one not in STATES])
async def test_a_wrong_token_is_told_as_json(
    name: str, gateway: GatewayProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    async with GatewayClient(gateway.address):
        pass  # the right secret ends the delays that the wrong ones before have brought
    reach = ("--url", gateway.address.url, "--token", "wrong")
    code, told = await to_thread.run_sync(partial(run, capsys, *words(name), *reach))
    assert code != 0
    assert is_failure(told)


OF_NOTHING = {
    name
    for name in ASKING
    if any(action.dest in {"id", "name", "serial", "place"} for action in COMMANDS[name]._actions)
    and not name.startswith("sessions recovered")
    and name not in {"cron add", "message react"}
}
"""Commands that take the id of a thing; two take the name of a new one, and an account first."""


@pytest.mark.full("half a minute")
@pytest.mark.parametrize("name", sorted(OF_NOTHING))
async def test_the_id_of_nothing_is_told_as_json(
    name: str, gateway: GatewayProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    reach = ("--url", gateway.address.url, "--token", gateway.token)
    code, payload = await to_thread.run_sync(partial(run, capsys, *words(name), *reach))
    assert code != 0
    assert is_failure(payload)
    assert "7" in payload["error"]["message"]
