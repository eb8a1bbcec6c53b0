"""The example plugin for IRC through a whole gateway and a real ngircd: conversations and kills."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.testing.gateway import running_gateway
from tests.support.irc import EXAMPLE, NICK, ROOM, ngircd, person

pytestmark = pytest.mark.full("ngircd")

KILLS = int(os.environ.get("SKERRY_KILLS", "4"))
"""Number of kills at random; with SKERRY_KILLS=200 it takes 279 s."""


def plugin(home: Path) -> Path:
    """Returns a copy of the example, which only its owner can write."""
    folder = home / "irc"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def everybody(home: Path, port: int) -> dict[str, Any]:
    settings = {"server": f"tcp://127.0.0.1:{port}", "nick": NICK, "channels": [ROOM]}
    access = {"dmPolicy": "open", "allowFrom": ["*"], "groups": {ROOM: {}}}
    return {
        "channels": {"irc": access},
        "plugins": {
            "load": {"paths": [str(plugin(home))]},
            "entries": {"irc": {"config": settings}},
        },
    }


async def test_a_conversation_runs_in_private_and_in_a_channel(tmp_path: Path) -> None:
    with ngircd(tmp_path / "ngircd") as port:
        config = everybody(tmp_path, port)
        async with (
            person(port) as alice,
            running_gateway(home=tmp_path / "home", config=config) as gateway,
        ):
            alice.say("hello")
            await alice.until(lambda: len(alice.heard) == 1)
            assert alice.heard == [("alice", "echo: hello")]
            alice.say("nobody is asked", ROOM)
            alice.say(f"{NICK}: two\x02 words", ROOM)
            await alice.until(lambda: len(alice.heard) == 2)
            assert alice.heard[1] == (ROOM, "echo: two words")
            alice.say("long " + "é" * 200)
            await alice.until(lambda: any("long" in text for _, text in alice.heard))
            assert await gateway.stop() == 0
            await alice.until(lambda: not alice.bot)


@pytest.mark.parametrize(
    ("point", "texts"),
    [
        ("store.after-commit:1", ["echo: hello", "echo: again"]),
        ("dispatch.accepted", ["echo: hello", "echo: again"]),
        ("delivery.after-send", ["echo: hello", "NOTICE", "echo: again"]),
    ],
)
async def test_a_kill_loses_no_message_and_repeats_no_answer(
    tmp_path: Path, point: str, texts: list[str]
) -> None:
    with ngircd(tmp_path / "ngircd") as port:
        config = everybody(tmp_path, port)
        async with (
            person(port) as alice,
            running_gateway(home=tmp_path / "home", config=config) as gateway,
        ):
            await alice.until(lambda: bool(alice.bot))
            await gateway.stop()
            await alice.until(lambda: not alice.bot)
            alice.say("hello")
            with anyio.fail_after(120):
                await gateway.start("--fault", point)
                await gateway.wait()
            await alice.until(lambda: not alice.bot)
            await gateway.start()
            alice.say("again")
            await alice.until(lambda: alice.heard[-1:] == [("alice", "echo: again")])
            await gateway.stop()
        heard = [text if text.startswith("echo") else "NOTICE" for _, text in alice.heard]
        assert heard == texts


async def test_kills_at_random_double_nothing_and_lose_only_what_nobody_confirmed(
    tmp_path: Path,
) -> None:
    """IRC stores no messages for absent people: those of a gateway's last moment may be lost."""
    rng = random.Random(7)  # noqa: S311 - reproducible, no secret
    texts: list[str] = []
    at_risk: set[str] = set()
    with ngircd(tmp_path / "ngircd") as port:
        config = everybody(tmp_path, port)
        async with (
            person(port) as alice,
            running_gateway(home=tmp_path / "home", config=config) as gateway,
        ):
            for _ in range(KILLS):
                await alice.until(lambda: bool(alice.bot))
                for _ in range(rng.randint(1, 3)):
                    texts.append(f"n{len(texts)}.")
                    alice.say(texts[-1])
                await anyio.sleep(rng.uniform(0, 1.5))
                await gateway.kill()
                await alice.until(lambda: not alice.bot)
                heard = " ".join(text for _, text in alice.heard)
                at_risk |= {name for name in texts[-3:] if name not in heard}
                await gateway.start()
            await alice.until(lambda: bool(alice.bot))
            alice.say("the end")
            await alice.until(lambda: alice.heard[-1:] == [("alice", "echo: the end")])
            await gateway.stop()
    names = [name for _, text in alice.heard for name in texts if name in text.split()]
    assert names == sorted(set(names), key=texts.index), "doubled, or out of order"
    assert set(texts) - set(names) <= at_risk
