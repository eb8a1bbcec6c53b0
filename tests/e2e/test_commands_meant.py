"""Commands as people give them: during a run, with words behind, in a file with comments."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.app.command_dependencies import CommandDependencies
from skerry.app.commands import activity_text, builtin_commands
from skerry.client.client import GatewayClient
from skerry.commands.table import CommandTable
from skerry.features.queue.commands import commands as queue_commands
from skerry.hooks.hooks import Hooks
from skerry.model.ids import RunId
from skerry.model.run import RunResult, StopReason
from skerry.testing.channel import FakePlatform
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels
from tests.e2e.test_commands import SCOPES, Page
from tests.support.chaos import until
from tests.support.core import Core, open_core, request
from tests.support.whole import whole_gateway


@asynccontextmanager
async def page(home: Path, config: dict[str, Any]) -> AsyncIterator[Page]:
    async with (
        whole_gateway(home, Hooks(), config=config) as (application, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        yield Page(application, client)


@asynccontextmanager
async def at_work(home: Path, waiting: Sequence[str]) -> AsyncIterator[tuple[Core, ReplyGate]]:
    """Yields a core whose main conversation has a run that is on, and messages that wait."""
    table, gate = CommandTable(), ReplyGate()
    async with open_core(home, ScriptedModel([[gate, "done"], ["2"]]), commands=table) as core:
        desk = CommandDependencies(core.dispatch.runtime.config, core.dispatch)
        models = ScriptedModels(core.models.provider)
        ours = builtin_commands(models, table, lambda call: activity_text(desk, call))
        for command in (*ours, *queue_commands(desk)):
            table.add(command)
        await core.dispatch.submit(request("a"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        for text in waiting:
            await core.dispatch.submit(request(text, queue_mode=None))
        yield core, gate


async def answered(core: Core, text: str) -> RunResult:
    await core.dispatch.submit(request(text, queue_mode=None))
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(text), None)
    assert result is not None
    return result


async def test_status_is_answered_while_a_run_is_on_and_says_what_waits(tmp_path: Path) -> None:
    async with at_work(tmp_path, ["b", "c"]) as (core, gate):
        (text,) = (await answered(core, "/status")).payloads
        assert "Now: a run has been on for " in text
        assert text.endswith(" s, 2 waiting, `collect`")
        gate.open()
        await answered(core, "d")
        (text,) = (await answered(core, "/status ")).payloads
        assert "Now:" not in text


@pytest.mark.parametrize("text", ["/stop please", "/abort: that is wrong"])
async def test_stop_stops_whatever_is_said_behind_it(tmp_path: Path, text: str) -> None:
    async with at_work(tmp_path, ()) as (core, _):
        assert (await answered(core, text)).payloads == ("⚙️ Agent was aborted.",)
        with anyio.fail_after(60):
            ended = await core.dispatch.wait(RunId("a"), None)
        assert ended is not None
        assert ended.stop_reason is StopReason.ABORTED


async def test_who_is_told_of_a_dropped_message_is_told_that_more_may_follow(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path, ()) as (core, gate):
        await answered(core, "/queue drop:new cap:1")
        for text in ("b", "c"):
            await core.dispatch.submit(request(text, queue_mode=None))
        with anyio.fail_after(60):
            dropped = await core.dispatch.wait(RunId("c"), None)
        assert dropped is not None
        assert dropped.error is not None
        assert "more may be dropped without a word" in dropped.error.message
        gate.open()


async def test_a_file_with_comments_is_changed_and_keeps_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with page(home, {"commands": {"config": True}}) as owner:
        file = home / "skerry.json"
        file.write_text(file.read_text() + "// mine")
        text = await owner.say("/config set messages.queue.cap=7")
        assert "Add this yourself" not in text
        assert '"cap": 7' in file.read_text()
        assert file.read_text().endswith("// mine")


async def test_a_change_that_makes_no_sense_does_not_blame_the_file(tmp_path: Path) -> None:
    async with page(tmp_path / "home", {"commands": {"config": True, "debug": True}}) as owner:
        for name in ("config", "debug"):
            text = await owner.say(f"/{name} set messages.queue.cap=7777")
            assert text.startswith("⚠️ Nothing was changed. messages.queue.cap: it should be less")
            assert "skerry.json" not in text


async def test_debug_refuses_what_counts_at_a_start_only(tmp_path: Path) -> None:
    async with page(tmp_path / "home", {"commands": {"debug": True}}) as owner:
        text = await owner.say("/debug set gateway.port=1234")
        assert "`gateway.port` takes effect only at a start" in text
        assert await owner.say("/debug show") == "Nothing is overridden."


async def test_a_few_words_are_not_summarised_into_more(tmp_path: Path) -> None:
    async with page(tmp_path / "home", {}) as owner:
        for text in ("one", "two", "three"):
            await owner.say(text)
        assert await owner.say("/compact") == "⚠️ There is nothing to summarise yet."


async def test_commands_have_no_prefix_and_blank_messages_call_no_model(
    tmp_path: Path,
) -> None:
    platform = FakePlatform(tmp_path / "platform")
    config = {"messages": {"responsePrefix": "[{model}]"}}
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config):
        for number, text in enumerate((" \n ", "/whoami", "hello")):
            platform.say(text, peer="ada", message_id=str(number))
        await until(lambda: len(platform.received()) == 2)
        assert platform.acknowledged() == 3
    texts = [message.text for message in platform.received()]
    guest = "You are a guest, over memory, in `agent:main:memory:direct:ada`."
    assert texts == [guest, "[script] echo: hello"]
