"""Random `kill -9` with everything on: steering, resets, deletions, commands, plugins, images."""

import base64
import os
import random
import re
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.lanes.collected_prompt import TITLE
from skerry.model.errors import ClientError
from skerry.model.ids import RunId
from skerry.model.message import AssistantMessage, UserMessage, open_calls
from skerry.model.run import RunResult
from skerry.store import Reader, open_store, outbox, runs, session_listing, sessions
from skerry.store.session_listing import SessionFilter
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import GatewayProcess
from tests.support.chaos import mirror_faults, quiet, rig, until

KILLS = int(os.environ.get("SKERRY_MIXED_KILLS", "4"))
SEED = int(os.environ.get("SKERRY_SEED", "20260207"))
KITCHEN = Path(__file__).parents[2] / "docs" / "examples" / "plugins" / "kitchen.py"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n pixels").decode()
WORDS = ("", "look ", "look ", "/help")


async def people(platform: FakePlatform, dice: random.Random) -> None:
    """Writes, whether somebody listens or not; each text ends in a word that no other has."""
    for number in count(1):
        peer, word = dice.choice(("alice", "bob")), dice.choice(WORDS)
        text = "/help" if word == "/help" else f"{word}m{number}"
        platform.say(text, peer=peer, message_id=f"m{number}")
        await anyio.sleep(dice.uniform(0.02, 0.2))


async def owner(
    gateway: GatewayProcess, accepted: list[str], put_away: list[str], dice: random.Random
) -> None:
    """Writes with images, give commands, reset and deletes conversations."""
    for number in count(1):
        key = f"w{number}"
        text = dice.choice((f"look {key}", f"{key}", "/tea green"))
        image = {"type": "image", "mimeType": "image/png", "content": PNG}
        sent: dict[str, Any] = {"sessionKey": "work", "message": text, "idempotencyKey": key}
        if dice.random() < 0.5:
            sent["attachments"] = [image]
        # The gateway may be dead, or die; a change may find the session busy.
        with suppress(ClientError), anyio.move_on_after(5):
            async with GatewayClient(gateway.address) as client:
                await client.request("chat.send", sent)
                accepted.append(key)
                method = dice.choice(("sessions.reset", "sessions.delete", "", "", "", ""))
                if method:
                    await client.request(method, {"key": "work"})
                    put_away.append(key)
        await anyio.sleep(dice.uniform(0.02, 0.2))


COLLECTED = re.compile(rf"{re.escape(TITLE)}|---\nQueued #\d+\n")
"""What stands around messages that became one prompt."""


@pytest.mark.timeout(300 + 60 * KILLS)
@pytest.mark.parametrize("mode", ["steer", "collect"])
async def test_random_kills_with_everything_on_lose_and_double_nothing(
    tmp_path: Path, mode: str
) -> None:
    dice = random.Random(SEED)  # noqa: S311 - the same kills at every run
    config: dict[str, Any] = {
        "messages": {"queue": {"mode": mode, "debounceMs": 50, "cap": 1000}},
        "plugins": {"load": {"paths": [str(copied(tmp_path))]}},
    }
    accepted: list[str] = []
    put_away: list[str] = []
    async with rig(tmp_path, **config) as (gateway, platform, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(people, platform, random.Random(SEED + 1))  # noqa: S311
            tasks.start_soon(owner, gateway, accepted, put_away, random.Random(SEED + 2))  # noqa: S311
            for _ in range(KILLS):
                await anyio.sleep(dice.uniform(0.2, 1.0))
                await gateway.kill()
                await gateway.start()
            await until(lambda: len(put_away) > 1)
            tasks.cancel_scope.cancel()
        await until(lambda: platform.acknowledged() == len(platform.inbox()))
        await quiet(gateway)
        await gateway.kill()  # the mirror is behind now; the next start brings it up
        await gateway.start()
        assert await gateway.stop() == 0
        texts = [row["text"] for row in platform.inbox() if row["text"] != "/help"]
        nonces = Counter(message.nonce for message in platform.received())
    async with open_store(tmp_path / "home" / "state.sqlite") as store:
        wrong = await store.read(lambda reader: faults(reader, texts, accepted))
        wrong += await mirror_faults(tmp_path / "home", store)
        joined, archived = await store.read(happened)
    wrong += [f"doubled: {nonce}" for nonce, times in nonces.items() if times > 1]
    assert wrong == [], f"SKERRY_SEED={SEED}"
    print(f"{len(texts)} + {len(accepted)} messages, {joined} joined, {archived} archived")  # noqa: T201
    assert min(joined, archived) > 0


def copied(folder: Path) -> Path:
    """Returns a plugin of the owner's own."""
    file = folder / "kitchen.py"
    file.touch(mode=0o600)
    file.write_bytes(KITCHEN.read_bytes())
    return file


def faults(reader: Reader, texts: list[str], accepted: list[str]) -> list[str]:
    """Returns the violated conditions at the end."""
    wrong = [f"open: {run.request.run_id}" for run in runs.unfinished(reader)]
    wrong += [f"outbox: {number} {state}" for state, number in outbox.counts(reader).items()]
    wrong += [f"lost: {key}" for key in accepted if not ended(reader, key)]
    said: list[str] = []
    for session in session_listing.recent(reader, SessionFilter(archived=None), limit=-1):
        entries = sessions.entries(reader, session.session_id, limit=-1)
        messages = [entry.message for entry in entries]
        prompts = [message.text for message in messages if isinstance(message, UserMessage)]
        said += [
            part.strip() for prompt in prompts for part in COLLECTED.split(prompt) if part.strip()
        ]
        wrong += [f"open call: {call.id}" for call in open_calls(messages)]
        if messages and not isinstance(messages[-1], AssistantMessage):
            wrong.append(f"without an end: {session.session_id}")
        wrong += [f"open: {entry.run_id}" for entry in entries if not ended(reader, entry.run_id)]
    written = Counter(said)
    wrong += [f"{written[text]} times: {text}" for text in texts if written[text] != 1]
    return wrong


def ended(reader: Reader, run_id: str) -> bool:
    return isinstance(runs.find(reader, RunId(run_id)), RunResult)


def happened(reader: Reader) -> tuple[int, int]:
    """Returns the number of messages that joined another run, and of archived sessions."""
    joined, archived = set[str](), 0
    for session in session_listing.recent(reader, SessionFilter(archived=None), limit=-1):
        archived += session.archived is not None
        for entry in sessions.entries(reader, session.session_id, limit=-1):
            found = runs.find(reader, RunId(entry.run_id))
            guest = isinstance(found, RunResult) and found.joined is not None
            if guest or TITLE in getattr(entry.message, "text", ""):
                joined.add(entry.run_id)
    return len(joined), archived
