"""The unmodified official MemWal SDKs, against a relayer as a user runs it."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio
import pytest

from tests.support.mocks import program
from tests.support.relayer_process import Served, made, served

pytestmark = pytest.mark.full("the official MemWal SDKs and an embedding model")

CASES: Final = 24
"""Cases of `tests/test_integration.py` in the source distribution of 0.1.12."""

REMEMBERS: Final = """
import asyncio, json, os, sys
from memwal import MemWal
from memwal.types import RememberBulkItem
async def main():
    client = MemWal.create(
        key=os.environ["MEMWAL_PRIVATE_KEY"],
        account_id=os.environ["MEMWAL_ACCOUNT_ID"],
        server_url=os.environ["MEMWAL_SERVER_URL"],
    )
    async with client:
        await client.remember_and_wait("I am allergic to peanuts")
        bulk = await client.remember_bulk_and_wait([
            RememberBulkItem("My sister is called Ada"),
            RememberBulkItem("I play the cello", namespace="music"),
        ])
        found = await client.recall("Which food must I avoid?", limit=1)
        music = await client.recall("instrument", namespace="music")
        facts = await client.analyze_and_wait(
            "I moved to Oslo last Friday.", occurred_at="2026-05-20T10:00:00Z"
        )
        names = await client.list_namespaces()
        print(json.dumps({
            "found": [hit.text for hit in found.results],
            "music": [hit.text for hit in music.results],
            "bulk": bulk.succeeded,
            "facts": [fact.text for fact in facts.facts],
            "names": sorted(space.name for space in names.namespaces),
        }))
asyncio.run(main())
"""
MIDDLEWARE: Final = """
import asyncio, json, os
from types import SimpleNamespace
from memwal import MemWal, with_memwal_openai
access = dict(
    key=os.environ["MEMWAL_PRIVATE_KEY"],
    account_id=os.environ["MEMWAL_ACCOUNT_ID"],
    server_url=os.environ["MEMWAL_SERVER_URL"],
)
seen = []
completions = SimpleNamespace(create=lambda **request: seen.append(request["messages"]))
client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
with_memwal_openai(client, **access)
def ask(text):
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    client.memwal_flush_sync()
async def stored():
    async with MemWal.create(**access) as memory:
        while not (await memory.recall("peanuts")).results:
            await asyncio.sleep(0.1)
ask("I am allergic to peanuts.")
asyncio.run(stored())
ask("What am I allergic to?")
print(json.dumps([" ".join(message["content"] for message in messages) for messages in seen]))
"""


@pytest.fixture
async def relayer(tmp_path: Path) -> AsyncIterator[tuple[Served, dict[str, str]]]:
    account = await made(tmp_path)
    async with served(tmp_path) as running:
        environ = {
            "MEMWAL_SERVER_URL": running.url,
            "MEMWAL_PRIVATE_KEY": account["delegateKey"],
            "MEMWAL_ACCOUNT_ID": account["accountId"],
        }
        yield running, environ


def python(version: str) -> str:
    """Returns the interpreter with an SDK, of the environments that scripts/test-tools.sh makes."""
    return program(
        f"SKERRY_MEMWAL_{version.replace('.', '_')}", f".venv-memwal-{version}/bin/python"
    )


async def run(words: list[str], environ: dict[str, str], folder: Path) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    with anyio.fail_after(240):
        completed = await anyio.run_process(
            words,
            env=kept | environ | {"HOME": str(folder)},
            cwd=folder,
            check=False,
            stderr=subprocess.STDOUT,
        )
    output = completed.stdout.decode()
    assert completed.returncode == 0, output
    return output


@pytest.mark.parametrize("version", ["0.1.12", "0.2.1"])
async def test_the_sdk_remembers_and_recalls(
    relayer: tuple[Served, dict[str, str]], version: str, tmp_path: Path
) -> None:
    output = await run([python(version), "-c", REMEMBERS], relayer[1], tmp_path)
    result = json.loads(output.splitlines()[-1])
    assert result == {
        "found": ["I am allergic to peanuts"],
        "music": ["I play the cello"],
        "bulk": 2,
        "facts": ["I moved to Oslo on Friday, 15 May 2026 (2026-05-15)."],
        "names": ["default", "music"],
    }


@pytest.mark.parametrize("version", ["0.1.12", "0.2.1"])
async def test_the_integration_cases_of_the_sdk_pass_unmodified(
    relayer: tuple[Served, dict[str, str]], version: str, tmp_path: Path
) -> None:
    suite = Path(python("0.1.12")).parents[1] / "suite"
    words = [
        python(version),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(suite),
    ]
    files = ["-c", str(suite / "pyproject.toml"), str(suite / "tests/test_integration.py")]
    output = await run([*words, *files], relayer[1], tmp_path)
    assert f"{CASES} passed" in output
    assert "skipped" not in output


@pytest.mark.parametrize("version", ["0.1.12", "0.2.1"])
async def test_the_middleware_of_the_sdk_puts_what_it_stored_before_a_later_question(
    relayer: tuple[Served, dict[str, str]], version: str, tmp_path: Path
) -> None:
    output = await run([python(version), "-c", MIDDLEWARE], relayer[1], tmp_path)
    first, second = json.loads(output.splitlines()[-1])
    assert first == "I am allergic to peanuts."
    assert "I am allergic to peanuts." in second
    assert second.endswith("What am I allergic to?")


async def test_the_sdk_without_nonces_is_told_to_upgrade(
    relayer: tuple[Served, dict[str, str]], tmp_path: Path
) -> None:
    script = Path(__file__).parent / "node" / "memwal.mjs"
    output = await run(["node", str(script)], relayer[1], tmp_path)
    outcomes = json.loads(output.splitlines()[-1])
    assert len(outcomes) == 2
    assert all("426" in outcome for outcome in outcomes)
