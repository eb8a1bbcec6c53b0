"""`skerry doctor` as a process."""

import json
from pathlib import Path

from .conftest import Command


async def test_each_check_is_a_line_and_a_failure_fails(
    command: Command, environ: dict[str, str]
) -> None:
    good = await command("doctor")
    assert good.returncode == 0
    assert b"ok       gateway: running at ws://127.0.0.1:" in good.stdout
    file = Path(environ["SKERRY_STATE_DIR"]) / "skerry.json"
    file.parent.mkdir(mode=0o700)
    file.write_text('{"gateway": {"nope": 1}}')
    bad = await command("doctor")
    assert bad.returncode == 1
    assert b"failure  configuration: " in bad.stdout
    assert b"\n         Try: Remove it.\n" in bad.stdout


async def test_json_is_one_list_on_stdout(command: Command) -> None:
    completed = await command("doctor", "--json")
    checks = json.loads(completed.stdout)
    assert {"name", "level", "message", "remedy"} == set(checks[0])
    assert completed.stderr == b""
