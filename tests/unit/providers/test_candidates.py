"""Profiles and fallback models in turn, over real sockets, with a model server that has faults."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.auth.cooldowns import MINUTE, Cooldowns
from skerry.config.root import Config
from skerry.infra.http import HttpClient
from skerry.model.event import LoopEvent, MessageWithdrawn
from skerry.model.ids import AgentId
from skerry.model.message import AssistantMessage, user
from skerry.model.run import Purpose
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.ports.model_candidates import CallTarget
from skerry.providers.candidates import ModelOption
from skerry.providers.catalog import Catalog
from skerry.providers.resolve import ModelTarget
from skerry.providers.streaming_call import Endpoint
from skerry.runtime.model_call import Failover, ModelCall
from skerry.sdk.slots import model_parts
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import Cut, HttpStep, StatusReply, StubModelServer
from tests.support.ledger import Books

Script = Callable[[str, str], Sequence[HttpStep]]
"""What the server says to a key and a model."""

KEYS = {"one": "key-number-one", "two": "key-number-two", "three": "key-number-three"}
LIMITED = StatusReply(429, headers=(("retry-after", "120"),))


class Rig:
    """A catalogue with profiles `p:one` to `p:three` of a provider `p`; one server behind it."""

    def __init__(self, home: Path, names: Sequence[str], agents: Mapping[str, Any]) -> None:
        self.home = home
        self.names = names
        self.agents = agents
        self.clock = FakeClock()
        self.script: Script = lambda key, model: [f"{model} by {key}"]
        self.asked: list[tuple[str, str]] = []
        self.books = Books()
        self.told: list[LoopEvent] = []
        self.environ: dict[str, str] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Rig"]:
        self.server = StubModelServer(lambda _: self._say())
        async with self.server as server, HttpClient() as http:
            provider: dict[str, Any] = {"baseUrl": server.base_url}
            models = {"mode": "replace", "providers": {"p": provider, "q": provider}}
            self.config = Config.model_validate(
                {"models": models, "agents": self.agents, "state_dir": self.home, "path": self.home}
            )
            self.write("main", self.names)
            async with Catalog(self.config, http, self.environ, model_parts()) as self.catalog:
                self.catalog.resume(Cooldowns(), self.clock)
                yield self

    def write(self, agent: str, names: Sequence[str], **content: Any) -> None:
        path = self.home / "agents" / agent / "agent" / "auth-profiles.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        profiles = {
            f"p:{name}": {
                "type": "api_key",
                "provider": "p",
                "key": KEYS[name],
                "baseUrl": self.server.base_url,
            }
            for name in names
        }
        path.write_text(json.dumps({"version": 1, "profiles": profiles, **content}))
        path.chmod(0o600)

    def _say(self) -> Sequence[HttpStep]:
        request = self.server.requests[-1]
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        name = next((name for name, text in KEYS.items() if text == key), key)
        self.asked.append((name, request.body["model"]))
        return self.script(name, request.body["model"])

    def speaker(self, reference: str | None = "p/m", **changes: Any) -> ModelCall:
        expected = CallTarget(reference, **({"session_id": "s"} | changes))
        failover = Failover(self.catalog, expected, self.books)
        return ModelCall(failover, self.told.append, self.clock.now_ms)

    async def say(self, reference: str | None = "p/m", **changes: Any) -> AssistantMessage:
        self.asked.clear()
        with anyio.fail_after(60):
            return await self.speaker(reference, **changes).respond(ask)


async def ask(model: ModelInfo) -> ModelRequest:
    return ModelRequest(model, "", History([user("hi", 0)]))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    fallbacks = {"defaults": {"model": {"primary": "p/m", "fallbacks": ["p/n"]}}}
    async with Rig(tmp_path, ["one", "two"], fallbacks).open() as rig:
        yield rig


def failing(answer: HttpStep, *names: str, model: str = "") -> Script:
    """Returns a script in which these keys fail, for one model or for all."""

    def say(key: str, asked: str) -> Sequence[HttpStep]:
        bad = key in names and model in {"", asked}
        return [answer] if bad else [f"{asked} by {key}"]

    return say


@pytest.mark.requirement("models-auth-rotation")
@pytest.mark.parametrize("status", [401, 402, 429, 529], ids=str)
async def test_the_next_profile_of_the_model_comes_before_another_model(
    rig: Rig, status: int
) -> None:
    rig.script = failing(StatusReply(status, headers=(("retry-after", "99"),)), "one")
    message = await rig.say()
    assert message.text == "m by two"
    assert list(dict.fromkeys(rig.asked)) == [("one", "m"), ("two", "m")]


@pytest.mark.requirement("models-failover-order")
async def test_fallback_models_follow_when_all_profiles_of_the_first_failed(rig: Rig) -> None:
    rig.script = failing(LIMITED, "one", "two", model="m")
    assert (await rig.say()).text in {"n by one", "n by two"}
    assert [model for _, model in rig.asked] == ["m", "m", "n"]


async def test_a_bad_model_does_not_take_its_profile_down(rig: Rig) -> None:
    rig.script = failing(LIMITED, "one", "two", model="m")
    await rig.say()
    await rig.say("p/n", session_id="t")
    assert [model for _, model in rig.asked] == ["n"]
    assert {row.model for row in rig.catalog.credentials.cooldowns.rows(rig.clock.now_ms())} == {
        "p/m"
    }


async def test_during_a_cooldown_no_call_is_made(rig: Rig) -> None:
    rig.script = failing(LIMITED, "one")
    await rig.say()
    await rig.say()
    assert rig.asked == [("two", "m")]
    rig.clock.advance(3 * MINUTE)
    rig.script = failing(LIMITED, "two")
    assert (await rig.say(session_id="new")).text == "m by one"


@pytest.mark.parametrize("fault", ["hang", "cut", "broken"])
async def test_a_silence_or_a_broken_answer_moves_on_and_blames_nobody(
    rig: Rig, fault: str
) -> None:
    faults: dict[str, list[HttpStep]] = {
        "hang": ["half", Cut()],
        "cut": [Cut(connection=True)],
        "broken": ["half", Cut(connection=True)],
    }
    rig.script = lambda key, model: faults[fault] if key == "one" else [f"{model} by {key}"]
    assert (await rig.say()).text == "m by two"
    assert rig.catalog.credentials.cooldowns.rows(rig.clock.now_ms()) == []
    assert (MessageWithdrawn() in rig.told) is (fault != "cut")


@pytest.mark.parametrize(
    "answer",
    [
        StatusReply(400, b'{"error":{"message":"prompt is too long: 9 > 8"}}'),
        StatusReply(400, b'{"error":{"message":"messages: roles must alternate"}}'),
    ],
    ids=["overflow", "bad request"],
)
async def test_a_fault_of_the_conversation_calls_no_other_model_and_cools_none_down(
    rig: Rig, answer: StatusReply
) -> None:
    rig.script = failing(answer, "one", "two")
    message = await rig.say()
    assert message.stop_reason == "error"
    assert len(rig.asked) == 1
    assert rig.catalog.credentials.cooldowns.rows(rig.clock.now_ms()) == []
    assert "more failed" not in (message.error_message or "")


async def test_an_abort_causes_no_cooldown(rig: Rig) -> None:
    gate = ReplyGate()
    rig.script = lambda _key, _model: ["so ", gate]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.speaker().respond, ask)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    assert rig.catalog.credentials.cooldowns.rows(rig.clock.now_ms()) == []
    (booked,) = rig.books.calls
    assert booked.error is not None
    assert booked.error.code == "run.aborted"


async def test_the_last_failure_names_who_was_tried_and_why(rig: Rig) -> None:
    rig.script = failing(StatusReply(401), "one", "two")
    speaker = rig.speaker()
    message = await speaker.respond(ask)
    assert speaker.failure is not None
    attempts = " ".join(speaker.failure.attempts)
    for name in ("p/m@p:one", "p/m@p:two", "p/n@p:one", "p/n@p:two"):
        assert name in attempts
    assert not any(key in f"{message.error_message}{attempts}" for key in KEYS.values())


@pytest.mark.requirement("agent-lifecycle-bootstrap")
async def test_a_profile_of_an_agent_is_loaded_with_its_first_run(tmp_path: Path) -> None:
    async with Rig(tmp_path, [], {}).open() as rig:
        rig.write("main", ["three"])
        assert (await rig.say()).text == "m by three"
        assert rig.books.calls[0].profile == "p:three"


async def test_sessions_take_turns_and_each_keeps_to_its_own(rig: Rig) -> None:
    first = [(await rig.say(session_id=name)).text for name in ("a", "b", "a", "b")]
    assert first == ["m by one", "m by two", "m by one", "m by two"]


async def test_a_pinned_profile_never_rotates(rig: Rig) -> None:
    for pin in ("p/m@p:two", "p/m@two"):
        assert (await rig.say(pin, session_id=pin)).text == "m by two"
    rig.script = failing(LIMITED, "two")
    assert (await rig.say("p/m@two", fallbacks=())).stop_reason == "error"
    assert {key for key, _ in rig.asked} == {"two"}


async def test_a_pin_that_names_nobody_says_who_there_is(rig: Rig) -> None:
    message = await rig.say("p/m@nobody", fallbacks=())
    assert "p:one, p:two" in (message.error_message or "")


async def test_the_order_of_the_file_holds_and_leaves_others_out(rig: Rig) -> None:
    rig.write("main", ["one", "two", "three"], order={"p": ["p:three", "p:one"]})
    rig.script = failing(StatusReply(401), "three")
    assert (await rig.say()).text == "m by one"
    assert rig.asked == [("three", "m"), ("one", "m")]


@pytest.mark.requirement("auth-main-fallback")
async def test_an_agent_without_a_usable_profile_takes_those_of_the_main_agent(
    tmp_path: Path,
) -> None:
    agents = {"list": [{"id": "main"}, {"id": "work"}]}
    async with Rig(tmp_path, ["one"], agents).open() as rig:
        work = AgentId("work")
        assert (await rig.say(agent=work)).text == "m by one"
        rig.write("work", ["two"])
        assert (await rig.say(agent=work, session_id="t")).text == "m by two"
        rig.script = failing(StatusReply(401), "two")
        assert (await rig.say(agent=work, session_id="u")).text == "m by one"


async def test_fallbacks_of_an_agent_take_the_place_of_the_defaults(tmp_path: Path) -> None:
    agents = {
        "defaults": {"model": {"primary": "p/m", "fallbacks": ["p/n"]}},
        "list": [{"id": "main"}, {"id": "work", "model": {"fallbacks": []}}],
    }
    async with Rig(tmp_path, ["one"], agents).open() as rig:
        rig.script = failing(LIMITED, "one", model="m")
        assert (await rig.say(agent=AgentId("work"))).stop_reason == "error"
        assert (await rig.say()).text == "n by one"
        own = await rig.say("p/m", agent=AgentId("work"), fallbacks=("p/o",))
        assert own.text == "o by one"


async def test_a_cooling_profile_answers_a_person_if_there_is_no_other(tmp_path: Path) -> None:
    async with Rig(tmp_path, ["one"], {}).open() as rig:
        rig.script = failing(LIMITED, "one")
        assert (await rig.say()).stop_reason == "error"
        rig.script = failing(LIMITED)
        for purpose in set(Purpose) - {Purpose.MESSAGE}:
            message = await rig.say(purpose=purpose)
            assert (rig.asked, message.stop_reason) == ([], "error")
            assert "cools down until" in (message.error_message or "")
        assert (await rig.say()).text == "m by one"
        assert (await rig.say(purpose=Purpose.CRON)).text == "m by one"


async def test_one_call_probes_and_the_others_wait_for_it(tmp_path: Path) -> None:
    async with Rig(tmp_path, ["one"], {}).open() as rig:
        rig.script = failing(LIMITED, "one")
        await rig.say()
        rig.clock.advance(5 * MINUTE)
        gate = ReplyGate()
        rig.script = lambda _key, _model: [gate, "well again"]
        rig.asked.clear()
        texts: list[str] = []

        async def one(name: str) -> None:
            texts.append((await rig.speaker(session_id=name).respond(ask)).text)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "a")
                await gate.reached.wait()
                for name in ("b", "c"):
                    tasks.start_soon(one, name)
                await anyio.wait_all_tasks_blocked()
                assert len(rig.asked) == 1
                gate.open()
        assert texts == ["well again"] * 3


@pytest.mark.parametrize("rested", [True, False])
async def test_a_call_that_a_probe_waits_for_does_not_wait_for_the_probe(
    tmp_path: Path, *, rested: bool
) -> None:
    async with Rig(tmp_path, ["one"], {}).open() as opened:

        async def compacted_first(model: ModelInfo) -> ModelRequest:
            noted = await opened.speaker(purpose=Purpose.FLUSH).respond(ask)
            assert noted.text == "m by one"
            return await ask(model)

        opened.script = failing(LIMITED, "one")
        await opened.say()
        opened.script = failing(LIMITED)
        opened.clock.advance(5 * MINUTE if rested else 1)
        with anyio.fail_after(60):
            message = await opened.speaker().respond(compacted_first)
        assert message.text == "m by one"


async def test_a_credential_in_the_place_of_a_bad_one_is_asked_at_once(tmp_path: Path) -> None:
    async with Rig(tmp_path, ["one"], {}).open() as rig:
        rig.script = failing(StatusReply(401), "one")
        assert (await rig.say()).stop_reason == "error"
        rig.write("main", ["two"])
        assert (await rig.say(purpose=Purpose.CRON)).text == "m by two"


async def test_a_secret_goes_to_no_address_but_its_own(tmp_path: Path) -> None:
    async with Rig(tmp_path, ["one"], {}).open() as rig, StubModelServer() as other:
        provider = {"baseUrl": other.base_url}
        moved = {"models": {"mode": "replace", "providers": {"p": provider}}}
        home = {"state_dir": tmp_path, "path": tmp_path}
        rig.catalog.reconfigure(Config.model_validate(moved | home))
        message = await rig.say()
        assert "not for the address" in (message.error_message or "")
        assert other.requests == []


async def test_the_rest_of_a_run_stays_with_who_answered(rig: Rig) -> None:
    rig.script = lambda key, model: [Cut()] if model == "m" else [f"{model} by {key}"]
    speaker = rig.speaker()
    assert (await speaker.respond(ask)).text == "n by one"
    rig.asked.clear()
    assert (await speaker.respond(ask)).text == "n by one"
    assert rig.asked == [("one", "n")]


def test_a_key_too_short_to_be_hidden_cools_down_like_any_other() -> None:
    endpoint = Endpoint("P", "http://127.0.0.1/v1", api_key="short")
    info = ModelInfo("p", "m", "M")
    short = ModelOption("p/m", ModelTarget(endpoint, info))
    assert endpoint.secrets == ()
    assert short.key == ("environment/p", "p/m")
    keyless = ModelOption("p/m", ModelTarget(Endpoint("P", "http://127.0.0.1/v1"), info))
    assert keyless.key is None
    assert short.stamp != keyless.stamp
