"""The example with a memory: it reads the transcripts by a cursor, and holds the slot."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway

DIARY = ROOT / "docs" / "examples" / "plugins" / "diary.py"


def placed(home: Path) -> dict[str, Any]:
    """Copies the example; returns the configuration that loads it."""
    home.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(DIARY, home / "diary.py")
    (home / "diary.py").chmod(0o600)
    return {"plugins": {"load": {"paths": ["diary.py"]}, "slots": {"memory": "diary"}}}


def stored(home: Path, column: str, table: str) -> list[Any]:
    """Returns a column of the diary, from its file."""
    path = home / "plugin-data" / "diary" / "tables.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'place'").fetchall():
            return []
        return [value for (value,) in connection.execute(f"SELECT {column} FROM {table}")]  # noqa: S608 - constants


async def until(condition: Callable[[], bool]) -> None:
    """Waits for the text that the plugin writes."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.05)


async def test_every_message_is_in_the_diary_once_after_kills(tmp_path: Path) -> None:
    home = tmp_path / "state"
    texts = [f"message {number}" for number in range(4)]
    async with running_gateway(home=home, config=placed(home)) as gateway:
        await until(lambda: bool(stored(home, "serial", "place")))
        for number, text in enumerate(texts):
            async with GatewayClient(gateway.address) as client:
                params = {"message": text, "sessionKey": "main", "idempotencyKey": f"k{number}"}
                with anyio.fail_after(60):
                    await client.request("agent", params, expect_final=True, timeout=60)
            await gateway.kill()
            await gateway.start()
        expected = [line for text in texts for line in (text, f"echo: {text}")]
        await until(lambda: len(stored(home, "text", "line")) >= len(expected))
        assert stored(home, "text", "line") == expected
