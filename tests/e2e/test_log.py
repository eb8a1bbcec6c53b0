"""The log that a gateway leaves, and where its token is shown, as the command starts it."""

import json
import os
import pty
import signal
import sys
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio.streams.text import TextReceiveStream

RUN = [sys.executable, "-m", "skerry", "gateway", "run", "--port", "0", "--verbose"]
READY = "  Chat  "


def environ_of(home: Path) -> dict[str, str]:
    return {**os.environ, "SKERRY_STATE_DIR": str(home / "state"), "HOME": str(home)}


def token_of(home: Path) -> str:
    tree = json.loads((home / "state" / "skerry.json").read_text(encoding="utf-8"))
    token: str = tree["gateway"]["auth"]["token"]
    return token


async def test_a_gateway_shows_its_token_to_no_pipe_and_no_log(tmp_path: Path) -> None:
    async with await anyio.open_process(
        RUN, stdout=PIPE, stderr=PIPE, env=environ_of(tmp_path)
    ) as process:
        assert process.stdout is not None
        said = ""
        with anyio.fail_after(60):
            async for text in TextReceiveStream(process.stdout):
                said += text
                if READY in said:
                    break
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            shown = "".join([text async for text in TextReceiveStream(process.stderr)])
            assert await process.wait() == 0
    (path,) = (tmp_path / "state" / "logs").glob("skerry-*.log")
    assert path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    messages = [line["message"] for line in lines if line["logger"] == "skerry.app.serve"]
    assert [text.split(" on port")[0].split(" ", 2)[-1] for text in messages] == [
        "answers",
        "stopping",
    ]
    assert " open)" in said
    assert token_of(tmp_path) not in path.read_text() + shown + said


async def seen_on_a_terminal(home: Path, *command: str, until: str | None) -> str:
    """Runs a command on a terminal; returns its output, up to a text or its end."""
    main, other = pty.openpty()
    shown = ""
    process = await anyio.open_process(
        [sys.executable, "-m", "skerry", *command],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environ_of(home) | {"DISPLAY": "", "WAYLAND_DISPLAY": ""},
    )
    os.close(other)
    async with process:
        with anyio.fail_after(60):
            while until is None or until not in shown:
                try:
                    await anyio.wait_readable(main)
                    shown += os.read(main, 4096).decode()
                except OSError:  # the other side is closed
                    break
            if until is not None:
                process.send_signal(signal.SIGTERM)
            await process.wait()
    os.close(main)
    return shown


async def test_the_first_start_shows_the_token_on_a_terminal_and_later_ones_do_not(
    tmp_path: Path,
) -> None:
    run = ("gateway", "run", "--port", "0")
    first = await seen_on_a_terminal(tmp_path, *run, until=READY)
    token = token_of(tmp_path)
    second = await seen_on_a_terminal(tmp_path, *run, until=READY)
    assert f"#token={token}" in first
    assert token not in second
    assert " open)" in second
