"""A provider that accepts and sends nothing costs one wait: in its run, and for those after it."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.auth.cooldowns import Cooldowns
from skerry.config.root import Config
from skerry.infra.http import HttpClient
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.ports.model_candidates import CallTarget
from skerry.providers.catalog import Catalog
from skerry.providers.model_health import SECONDS, SilentAddresses
from skerry.runtime.model_call import Failover, ModelCall
from skerry.sdk.slots import model_parts
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.support.ledger import Books


@dataclass
class Rig:
    """Provider `p` with two keys and the models `m` and `l`; behind it `q` with `n`."""

    catalog: Catalog
    asked: list[str] = field(default_factory=list)
    quiet: set[str] = field(default_factory=lambda: {"m"})
    """Models that send nothing."""
    now: float = 1000.0

    def speaker(self) -> ModelCall:
        """Returns the model of a new run."""
        failover = Failover(self.catalog, CallTarget("p/m", session_id="s"), Books())
        return ModelCall(failover, lambda _: None, lambda: 0)

    async def say(self, speaker: ModelCall | None = None) -> tuple[str, list[str]]:
        """Returns the answer of a run, and which models were asked for it."""
        self.asked.clear()
        with anyio.fail_after(60):
            answer = await (speaker or self.speaker()).respond(ask)
        return answer.text or answer.error_message or "", list(self.asked)


async def ask(model: ModelInfo) -> ModelRequest:
    return ModelRequest(model, "", History([user("hi", 0)]))


@asynccontextmanager
async def opened(
    home: Path,
    address: str | None = None,
    fallbacks: tuple[str, ...] = ("q/n",),
    first_byte: float = 0.2,
) -> AsyncGenerator[Rig]:
    """Opens a catalogue; `address` is that of `p`, which is a server of ours without one."""

    def script(body: dict[str, Any]) -> list[HttpStep]:
        rig.asked.append(body["model"])
        return [ReplyGate()] if body["model"] in rig.quiet else [body["model"]]

    async with (
        StubModelServer(script) as ours,
        StubModelServer(script) as other,
        HttpClient() as http,
    ):
        address = address or ours.base_url
        silent = {"baseUrl": address, "firstByteSeconds": first_byte}
        providers = {"p": silent, "q": {"baseUrl": other.base_url}}
        profiles = {
            f"p:{name}": {
                "type": "api_key",
                "provider": "p",
                "key": f"key-{name}",
                "baseUrl": address,
            }
            for name in ("number-one", "number-two")
        }
        path = home / "agents" / "main" / "agent" / "auth-profiles.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"version": 1, "profiles": profiles}))
        path.chmod(0o600)
        model = {"primary": "p/m", "fallbacks": fallbacks}
        config = Config.model_validate(
            {
                "models": {"mode": "replace", "providers": providers},
                "agents": {"defaults": {"model": model}},
                "state_dir": home,
                "path": home,
            }
        )
        async with Catalog(config, http, {}, model_parts(), monotonic=lambda: rig.now) as catalog:
            catalog.resume(Cooldowns(), FakeClock())
            rig = Rig(catalog)
            yield rig


async def test_a_silent_model_is_asked_once_and_passed_over_for_the_rest_of_the_run(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as rig:
        speaker = rig.speaker()
        assert await rig.say(speaker) == ("n", ["m", "n"])  # not for each key and try
        rig.quiet.clear()
        rig.now += 2 * SECONDS
        assert await rig.say(speaker) == ("n", ["n"])


async def test_a_silent_provider_without_another_is_asked_once(tmp_path: Path) -> None:
    async with opened(tmp_path, fallbacks=()) as rig:
        text, asked = await rig.say()
        assert "silent for 0.2 s" in text
        assert asked == ["m"]


async def test_another_model_at_a_silent_address_is_asked_after_all_others(tmp_path: Path) -> None:
    async with opened(tmp_path, fallbacks=("p/l", "q/n")) as rig:
        assert await rig.say() == ("n", ["m", "n"])


async def test_another_model_at_a_silent_address_answers_where_nobody_else_is(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, fallbacks=("p/l",), first_byte=2) as rig:
        assert await rig.say() == ("l", ["m", "l"])


async def test_a_silent_address_comes_last_for_a_minute_and_then_one_request_tries_it(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, first_byte=2) as rig:
        assert await rig.say() == ("n", ["m", "n"])
        assert await rig.say() == ("n", ["n"])  # the next message, without a wait
        rig.now += SECONDS
        assert await rig.say() == ("n", ["m", "n"])  # one finds out
        assert await rig.say() == ("n", ["n"])
        rig.now += SECONDS
        rig.quiet.clear()
        assert await rig.say() == ("m", ["m"])
        assert await rig.say() == ("m", ["m"])


def test_while_one_request_tries_an_address_again_others_go_elsewhere() -> None:
    now = 0.0
    silences = SilentAddresses(lambda: now)
    silences.note("here")
    assert silences.comes_last("here")
    assert not silences.comes_last("there")
    now = SECONDS
    assert [silences.comes_last("here") for _ in range(3)] == [False, True, True]
    silences.answered("here")
    assert not silences.comes_last("here")


@pytest.mark.parametrize("accepts", [True, False], ids=["accepts", "refuses"])
async def test_a_dead_address_is_asked_once_for_all_its_keys(
    tmp_path: Path, *, accepts: bool
) -> None:
    with socket.socket() as held:  # its backlog takes connections, and nobody answers them
        held.bind(("127.0.0.1", 0))
        if accepts:
            held.listen()
        async with opened(tmp_path, f"http://127.0.0.1:{held.getsockname()[1]}/v1") as rig:
            assert await rig.say() == ("n", ["n"])
            assert await rig.say() == ("n", ["n"])
        held.settimeout(0)
        connections = 0
        with suppress(OSError):
            while True:
                held.accept()[0].close()
                connections += 1
        assert connections == accepts
