"""Clients in any order of connects, calls, runs and departures: each request has one answer."""

import json
import logging
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.from_thread
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import BaseModel

from skerry.gateway.dispatch import MethodTable
from skerry.policy import access
from skerry.policy.access import OPERATOR_SCOPES, Role, Verb
from skerry.policy.decide import Actor, Request, decide
from tests.support.device import Device
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Frame, Wire, connected, dial, request

METHODS = {method.name: method.params for method in MethodTable().methods}
NEEDS = MethodTable().needs
KEYS = ("agent:main:main", "agent:main:other", "main")
WAITS = frozenset({"agent.wait", "node.invoke"})
"""They wait for what may never come; the machine gives them no time."""

names = st.sampled_from([*KEYS, "x", "1", "../..", "", "\u202e\0"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 1 << 40)
    | names
    | st.floats(allow_nan=False, allow_infinity=False),  # JSON has no word for the others
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
VALID: dict[str, dict[str, Any]] = {
    "agent": {"message": "hi", "sessionKey": KEYS[0], "idempotencyKey": "a"},
    "chat.abort": {"sessionKey": KEYS[0]},
    "chat.history": {"sessionKey": KEYS[0]},
    "chat.inject": {"sessionKey": KEYS[0], "message": "note"},
    "chat.send": {"sessionKey": KEYS[0], "message": "hi", "idempotencyKey": "b"},
    "markdown.render": {"texts": ["*a*"]},
    "sessions.delete": {"key": KEYS[1]},
    "sessions.messages.subscribe": {"key": KEYS[0]},
    "sessions.messages.unsubscribe": {"key": KEYS[0]},
    "sessions.patch": {"key": KEYS[0], "label": "mine"},
    "sessions.preview": {"keys": [KEYS[0]]},
    "sessions.reset": {"key": KEYS[0]},
    "sessions.resolve": {"key": KEYS[0]},
    "sessions.restore": {"sessionId": "x"},
}


def params_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """Returns objects with the keys that the model has, and now and then one that it has not."""
    keys = [field.alias or name for name, field in model.model_fields.items()]
    return st.fixed_dictionaries({}, optional=dict.fromkeys([*keys, "surplus"], values))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Any]:
    """Draws a method and its parameters."""
    if draw(st.booleans()):
        good = draw(st.sampled_from(sorted(VALID)))
        return good, VALID[good]
    name = draw(st.sampled_from([*sorted(METHODS), "connect", "no.such"]))
    if name not in METHODS:
        return name, draw(values)
    given = draw(params_of(METHODS[name]) | values)
    if name in WAITS and isinstance(given, dict):
        given |= {"timeoutMs": 1}  # 0 is the default of `node.invoke`, half a minute
    return name, given


@dataclass
class Client:
    """One accepted connection, and its requests."""

    wire: Wire
    role: Role
    scopes: list[str]
    opened: AsyncExitStack
    asked: dict[str, str] = field(default_factory=dict)
    """The method of each request, by the request's id."""


class RecordedErrors(logging.Handler):
    """Records the errors that the gateway, its server and its event loop log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the line."""
        self.lines.append(record.getMessage())


class Protocol(RuleBasedStateMachine):
    """A gateway and up to three clients."""

    patience = 60.0
    """Seconds within which each request has its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = RecordedErrors()
        logging.getLogger().addHandler(self.heard)
        self.folder = TemporaryDirectory(prefix="skerry-")
        self.portal_of = anyio.from_thread.start_blocking_portal()
        self.portal = self.portal_of.__enter__()
        self.serving = self.portal.wrap_async_context_manager(
            running_gateway(Path(self.folder.name))
        )
        self.rig: Rig = self.serving.__enter__()
        self.clients: list[Client] = []
        self.number = 0
        self.present = len(self.rig.context.presence.entries())
        self.run(self._reply())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Does it where the gateway is."""

        async def bounded() -> Any:
            with anyio.fail_after(60):
                return await work

        return self.portal.call(bounded)

    async def _reply(self) -> None:
        self.rig.dispatcher.reply = lambda text: f"you said {text}"

    def teardown(self) -> None:
        try:
            try:
                for client in self.clients:
                    self.run(self._ask(client, [("health", None)]))
            finally:
                while self.clients:
                    self.run(self._close(self.clients.pop()))
            self.run(self._nothing_is_left())
        finally:
            self.serving.__exit__(None, None, None)
            self.portal_of.__exit__(None, None, None)
            self.folder.cleanup()
            logging.getLogger().removeHandler(self.heard)

    @precondition(lambda self: len(self.clients) < 3)
    @rule(version=st.sampled_from([3, 4]), scopes=st.sets(st.sampled_from(sorted(OPERATOR_SCOPES))))
    def connect(self, version: int, scopes: set[str]) -> None:
        """An operator comes, with whatever scopes."""
        self._admit(version, Role.OPERATOR, sorted(scopes))

    @precondition(lambda self: len(self.clients) < 3)
    @rule(version=st.sampled_from([3, 4]))
    def connect_whole(self, version: int) -> None:
        """An operator comes who may do everything."""
        self._admit(version, Role.OPERATOR, sorted(OPERATOR_SCOPES))

    @precondition(lambda self: len(self.clients) < 3)
    @rule(version=st.sampled_from([3, 4]))
    def connect_node(self, version: int) -> None:
        """A node comes; this machine's own are paired at once."""
        self._admit(version, Role.NODE, [])

    @rule(token=st.sampled_from(["", "wrong", "5eed"]))
    def wrong_token(self, token: str) -> None:
        """A client without the secret is refused and disconnected."""

        async def refused() -> None:
            async with dial(self.rig.url) as wire:
                answer = await wire.connect(auth={"token": token})
                assert not answer["ok"]
                assert (await wire.closed())[0] == 1008

        self.run(refused())

    @rule()
    def no_connect(self) -> None:
        """Whoever asks before `connect` is closed."""

        async def refused() -> None:
            async with dial(self.rig.url) as wire:
                await wire.send(request("health"))
                assert (await wire.closed())[0] == 1008

        self.run(refused())

    @precondition(lambda self: self.clients)
    @rule(
        which=st.integers(0, 2),
        asked=st.lists(calls(), min_size=1, max_size=8),
        leaves=st.booleans(),
    )
    def call(self, which: int, asked: list[tuple[str, Any]], *, leaves: bool) -> None:
        """A client asks many things at once, and waits for the answers or is gone at once."""
        client = self.clients[which % len(self.clients)]
        if leaves and which == 2:
            self.run(self._send(client, asked))
            self.clients.remove(client)
            self.run(self._close(client))
        else:
            self.run(self._ask(client, asked))

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 2), text=st.sampled_from(["{", "[]", "1", '{"type":"req"}', "null"]))
    def malformed(self, which: int, text: str) -> None:
        """A client sends what is no request; it stays, and its next request is answered."""
        client = self.clients[which % len(self.clients)]
        self.run(client.wire.socket.send(text))
        self.run(self._ask(client, [("health", None)]))

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 2))
    def disconnect(self, which: int) -> None:
        """A client leaves."""
        self.run(self._close(self.clients.pop(which % len(self.clients))))

    @invariant()
    def well(self) -> None:
        """Nothing failed inside, and the gateway says that it is well."""
        assert not self.heard.lines

        async def ready() -> list[str]:
            return await self.rig.context.failing()

        assert self.run(ready()) == []

    def _admit(self, version: int, role: Role, scopes: list[str]) -> None:
        self.clients.append(self.run(self._come(version, role, scopes)))

    async def _come(self, version: int, role: Role, scopes: list[str]) -> Client:
        opened = AsyncExitStack()
        payload: dict[str, Any] = {
            "minProtocol": version,
            "maxProtocol": version,
            "role": role,
            "scopes": scopes,
        }
        way = partial(
            Device().connected if role is Role.NODE else connected, self.rig.url, **payload
        )
        wire = await opened.enter_async_context(way())
        return Client(wire, role, scopes, opened)

    async def _close(self, client: Client) -> None:
        await client.opened.aclose()

    async def _send(self, client: Client, asked: list[tuple[str, Any]]) -> dict[str, str]:
        names = {}
        for method, params in asked:
            self.number += 1
            names[str(self.number)] = method
            await client.wire.send(request(method, params, id=str(self.number)))
        client.asked |= names
        return names

    async def _ask(self, client: Client, asked: list[tuple[str, Any]]) -> None:
        names = await self._send(client, asked)
        begin = len(client.wire.frames)
        with anyio.move_on_after(self.patience):
            while _unanswered(names, client.wire.frames[begin:]):
                await client.wire.receive()
        missing = _unanswered(names, client.wire.frames[begin:])
        assert not missing, f"no (last) answer to {missing}"
        await client.wire.ask("no.such.thing")  # what answers twice at once answers before it
        for name, got in _answers(client.wire.frames[begin:]).items():
            if name in names:
                _check_access(client, names[name], got[-1])
        _check_once(client)
        _check_numbers(client.wire.frames)

    async def _nothing_is_left(self) -> None:
        context = self.rig.context
        broadcast = context.broadcast
        with anyio.fail_after(60):
            while len(context.presence.entries()) > self.present:  # noqa: ASYNC110 - the gateway hears of a close later
                await anyio.sleep(0.001)
        tables: list[Any] = [
            broadcast._topics,
            broadcast._subscribed,
            *broadcast._clients.values(),
            *(
                table
                for audience in broadcast._audiences.values()
                for table in (audience.readers, audience.tools)
            ),
            context.clients._devices,
            context.nodes.all(),
        ]
        assert not any(tables), tables


def _answers(frames: list[Frame]) -> dict[str, list[Frame]]:
    """Returns the answers among the frames, by the ids of their requests."""
    answers: dict[str, list[Frame]] = {}
    for frame in frames:
        if frame["type"] == "res":
            answers.setdefault(frame["id"], []).append(frame)
    return answers


def _unanswered(names: dict[str, str], frames: list[Frame]) -> dict[str, str]:
    """Returns the requests whose last answer has not come."""
    answers = _answers(frames)
    return {
        name: method
        for name, method in names.items()
        if all(_is_first_of_two(method, row) for row in answers.get(name, []))
    }


def _is_first_of_two(method: str, answer: Frame) -> bool:
    """Returns whether the answer only accepts a run."""
    return bool(
        method == "agent" and answer["ok"] and answer["payload"].get("status") == "accepted"
    )


def _check_once(client: Client) -> None:
    """Checks that nothing was answered twice, also not long after its first answer."""
    answers = _answers(client.wire.frames)
    for name in answers.keys() & client.asked.keys():
        method, got = client.asked[name], answers[name]
        firsts = [_is_first_of_two(method, row) for row in got]
        assert firsts in ([False], [True], [True, False]), (method, json.dumps(got))


def _check_access(client: Client, method: str, answer: Frame) -> None:
    need = NEEDS.get(method, access.UNLISTED)
    error = answer.get("error") or {}
    assert error.get("message") != "internal error", answer
    told = error.get("message", "")
    refused = told.startswith(("unauthorized role", "missing scope"))
    actor = Actor(role=client.role, scopes=tuple(client.scopes))
    allowed = decide(Request(actor, Verb.CALL, method, need)).allowed
    assert refused == (not allowed), (method, answer)
    assert not (refused and answer["ok"])


def _check_numbers(frames: list[Frame]) -> None:
    numbers = [frame["seq"] for frame in frames if frame["type"] == "event" and "seq" in frame]
    assert numbers == list(range(1, len(numbers) + 1))


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    # `SKERRY_EXAMPLES=500 make explore` walks further; an example takes about half a second.
    max_examples=int(os.environ.get("SKERRY_EXAMPLES", "10")),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Not shrunk: what fails may have waited a minute, and would be waited for a hundred times.
    phases=(Phase.reuse, Phase.generate),
    report_multiple_bugs=False,
)
