"""One run has one configuration, whatever changes while it is on."""

from pathlib import Path

from msgspec.structs import replace

from skerry.config.tools import GuestTools, ToolsConfig
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import ToolCall, ToolResultMessage
from skerry.model.origin import Origin
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import Core, open_core, request

GROUP = SessionKey.parse("agent:main:memory:group:family")
READ = ToolCall("1", "read", {"path": "note.md"})


async def guest_asks(core: Core, text: str) -> None:
    await core.dispatch.submit(replace(request(text, key=GROUP), origin=Origin.STRANGER))


async def test_a_run_keeps_the_configuration_that_it_started_with(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, READ], ["done"], ["without"]])
    async with open_core(tmp_path, model, granted=("read",)) as core:
        (core.workspace / "note.md").write_text("note", "utf-8")
        await guest_asks(core, "a")
        await gate.reached.wait()
        tools = ToolsConfig(guests=GuestTools(allow=()))
        core.configs.append(core.configs[0].model_copy(update={"tools": tools}))
        gate.open()
        result = await core.dispatch.wait(RunId("a"), 60)
        assert result is not None
        assert result.payloads == ("done",)
        await guest_asks(core, "b")
        assert await core.dispatch.wait(RunId("b"), 60) is not None
        answers = [
            message
            for message in await core.transcript(GROUP)
            if isinstance(message, ToolResultMessage)
        ]
        assert [answer.text for answer in answers] == ["1: note"]
    offered = [{call.name for call in model_call.request.tools} for model_call in model.requests]
    assert offered == [{"read"}, {"read"}, set()]
