"""The log that a gateway leaves, as the command starts it."""

import json
import os
import re
import signal
import sys
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio.streams.text import TextReceiveStream


async def test_a_gateway_leaves_a_log_for_its_owner_without_its_token(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "skerry", "gateway", "run", "--port", "0", "--verbose"]
    environ = {"SKERRY_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    async with await anyio.open_process(
        command, stdout=PIPE, stderr=PIPE, env={**os.environ, **environ}
    ) as process:
        assert process.stdout is not None
        said, found = "", None
        with anyio.fail_after(60):
            async for text in TextReceiveStream(process.stdout):
                said += text
                if found := re.search(r"#token=([0-9a-f]{48})", said):
                    break
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            shown = "".join([text async for text in TextReceiveStream(process.stderr)])
            assert await process.wait() == 0
    assert found is not None
    (path,) = (tmp_path / "state" / "logs").glob("skerry-*.log")
    assert path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    told = [line["message"] for line in lines if line["logger"] == "skerry.app.serve"]
    assert [text.split(" on port")[0].split(" ", 2)[-1] for text in told] == ["answers", "stopping"]
    assert found[1] not in path.read_text() + shown
