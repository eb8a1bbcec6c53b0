"""Rights of a client across a restart: of runs stored with their scopes, and of older ones."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.features.models.commands import model_commands
from skerry.features.sessions.session_opening import session_commands
from skerry.infra.clock import SystemClock
from skerry.model.ids import RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.rights import MissingScopeError, Rights
from skerry.model.run import RunRequest, StopReason
from skerry.model.thinking import ThinkingLevel
from skerry.policy.access import ADMIN, WRITE
from skerry.runtime.recovery import recover
from skerry.store import Unit, runs
from skerry.testing.channel import ACCOUNT, CHANNEL
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel, ScriptedModels, SeenRequest, echo
from tests.support.core import Core, open_core, request

WRITER, ADMINISTRATOR = (WRITE,), (ADMIN,)
REFUSED = "missing scope: operator.admin"


@dataclass
class Restarting:
    """A gateway's core whose lane is busy until it stops, and that starts again."""

    home: Path

    @asynccontextmanager
    async def busy(self, scope: str = ADMIN) -> AsyncGenerator[Core]:
        """Opens the core with a run at its model; `scope` is what `/deploy` needs."""
        gate = ReplyGate()
        async with self._open(ScriptedModel([["half", gate]]), scope) as core:
            await core.dispatch.submit(request("first"))
            with anyio.fail_after(60):
                await gate.reached.wait()
            yield core

    @asynccontextmanager
    async def again(self, model: ScriptedModel | None = None) -> AsyncGenerator[Core]:
        """Opens it once more and takes up what was left; `/deploy` needs the admin scope."""
        async with self._open(model or ScriptedModel(echo), ADMIN) as core:
            left = await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
            for run in left:
                core.dispatch.resume(run)
            yield core

    @asynccontextmanager
    async def _open(self, model: ScriptedModel, scope: str) -> AsyncGenerator[Core]:
        async def deploy(call: CommandCall) -> str:
            return f"deployed {call.arguments}"

        table = CommandTable()
        table.add(Command("deploy", "deploys", deploy, accepts_arguments=True, scope=scope))
        models = ScriptedModels(model, replace(MODEL, reasoning=True))
        async with open_core(self.home, models, commands=table) as core:
            config = core.dispatch.runtime.config
            for command in model_commands(core.models, core.store, config):
                table.add(command)
            for command in session_commands(core.store):
                table.add(command)
            yield core


def by(text: str, scopes: tuple[str, ...] | None) -> RunRequest:
    """Returns a message of a client that holds the scopes."""
    return replace(request(text), scopes=scopes)


async def older(core: Core, *texts: str, to: ReplyTo | None = None) -> None:
    """Queues the messages, and leaves them in the store as a gateway without scopes wrote them."""
    for text in texts:
        rights = Rights.OWNER if to else None
        await core.dispatch.submit(replace(request(text), reply_to=to, rights=rights))

    def strip(unit: Unit) -> None:
        unit.execute(
            "UPDATE run SET request ="
            " CAST(json_remove(CAST(request AS TEXT), '$.scopes') AS BLOB) WHERE result IS NULL"
        )

    await core.store.write(strip)


def request_for(model: ScriptedModel, text: str) -> SeenRequest:
    """Returns the request of the model for this text."""
    (found,) = (request for request in model.requests if request.last == text)
    return found


async def answered(core: Core, text: str) -> tuple[str, ...]:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(text), None)
    assert result is not None
    assert result.stop_reason is StopReason.DONE
    return result.payloads


@pytest.mark.parametrize("text", ["/deploy it", "/think high", "/think high go", "/new", "/new go"])
async def test_what_a_writer_is_refused_while_the_lane_is_busy_is_refused_after_a_restart(
    tmp_path: Path, text: str
) -> None:
    gateway = Restarting(tmp_path)
    async with gateway.busy() as core:
        with pytest.raises(MissingScopeError):
            await core.dispatch.submit(by(text, WRITER))
    async with gateway.again() as core:
        assert await answered(core, "first") == ("echo: first",)
        assert await core.store.read(lambda reader: runs.find(reader, text)) is None
        with pytest.raises(MissingScopeError):
            await core.dispatch.submit(by(text, WRITER))


async def test_a_command_that_waits_is_decided_by_the_scopes_it_came_with(tmp_path: Path) -> None:
    gateway = Restarting(tmp_path)
    async with gateway.busy(scope=WRITE) as core:  # and admin from the restart on
        await core.dispatch.submit(by("/deploy a", WRITER))
        await core.dispatch.submit(by("/deploy b", ADMINISTRATOR))
    async with gateway.again() as core:
        said = [await answered(core, f"/deploy {one}") for one in "ab"]
        assert said == [(REFUSED,), ("deployed b",)]


async def test_what_an_admin_queued_is_carried_out_after_a_restart(tmp_path: Path) -> None:
    gateway, model = Restarting(tmp_path), ScriptedModel(echo)
    async with gateway.busy() as core:
        for text in ("/deploy it", "/think high go", "/new on"):
            await core.dispatch.submit(by(text, ADMINISTRATOR))
    async with gateway.again(model) as core:
        assert await answered(core, "/deploy it") == ("deployed it",)
        assert await answered(core, "/think high go") == ("echo: go",)
        assert request_for(model, "go").request.thinking is ThinkingLevel.HIGH
        assert await answered(core, "/new on") == ("echo: on",)
        assert len(request_for(model, "on").messages) == 1


async def test_an_older_run_of_a_client_holds_the_least_scopes(tmp_path: Path) -> None:
    gateway, model = Restarting(tmp_path), ScriptedModel(echo)
    refused = ("/deploy it", "/think high", "/new", "/new on", "/resume list", "/resume")
    async with gateway.busy() as core:
        await older(core, "plain", "/think high go", *refused)
    async with gateway.again(model) as core:
        assert await answered(core, "plain") == ("echo: plain",)
        assert await answered(core, "/think high go") == ("echo: go",)
        assert (
            request_for(model, "go").request.thinking
            is request_for(model, "plain").request.thinking
        )
        assert [await answered(core, one) for one in refused] == [(REFUSED,)] * len(refused)
        assert len({end.session_id for end in core.ends()}) == 1


async def test_an_older_run_of_a_person_on_a_platform_is_decided_by_their_rights(
    tmp_path: Path,
) -> None:
    gateway, model = Restarting(tmp_path), ScriptedModel(echo)
    to = ReplyTo(CHANNEL, ACCOUNT, Peer(PeerKind.DIRECT, "alice"), "m1")
    async with gateway.busy() as core:
        await older(core, "/deploy it", "/think high go", "/new on", to=to)
    async with gateway.again(model) as core:
        assert await answered(core, "/deploy it") == ("deployed it",)
        assert await answered(core, "/think high go") == ("echo: go",)
        assert request_for(model, "go").request.thinking is ThinkingLevel.HIGH
        assert await answered(core, "/new on") == ("echo: on",)
        assert len({end.session_id for end in core.ends()}) == 2
