"""Commands of skills in a core: a message to the model, or a call of a tool without one."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.commands.table import CommandTable
from skerry.features.files.read_tool import Read
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import AssistantMessage, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import AdmissionStatus, RunRequest
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext
from skerry.store import sessions
from skerry.testing.model import ScriptedModel, echo
from tests.support.asking_tool import AskingTool
from tests.support.core import Core, open_core, request
from tests.support.openings import current, delivered, receive

CALLS = "command-dispatch: tool\ncommand-tool: {tool}\n"


class Counting:
    """Answers with its arguments."""

    verb = Verb.USE
    spec = ToolSpec("count", "Counts.", {"type": "object"})

    async def run(self, arguments: dict[str, Any], _: ToolContext) -> ToolResult:
        values = " ".join(f"{key}={value}" for key, value in sorted(arguments.items()))
        return ToolResult(f"counted {values}")


def write(home: Path, name: str = "frogs", more: str = "") -> Path:
    file = home / "workspace" / "skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: Counts {name}.\n{more}---\nCount.\n")
    file.chmod(0o600)
    return file


async def answer_to(core: Core, given: RunRequest) -> str:
    await core.dispatch.submit(given)
    with anyio.fail_after(60):
        result = await core.dispatch.wait(given.run_id, None)
    assert result is not None
    return "\n".join(result.payloads)


@pytest.mark.requirement("skills-slash-commands")
async def test_a_command_of_a_skill_becomes_a_message_that_names_it(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model, commands=CommandTable()) as core:
        assert "Unknown command `/frogs`" in (await core.ask("/frogs two?")).payloads[0]
        file = write(tmp_path)
        expected = 'Use the skill "frogs" for this request: read `skills/frogs/SKILL.md` first'
        for text in ("/frogs here?", "/skill frogs here?"):
            (answer,) = (await core.ask(text)).payloads
            assert expected in answer
            assert answer.endswith("here?")
        assert "<name>frogs</name>" in model.requests[-1].request.system
        again = await core.dispatch.submit(request("/frogs here?"))
        assert again.status is AdmissionStatus.FINISHED, "a repeated key with the same text"
        file.unlink()
        assert "Unknown command `/frogs`" in (await core.ask("/frogs", "later")).payloads[0]
        assert "frogs" not in (await core.ask("hello")).payloads[0]
        assert "<name>frogs</name>" not in model.requests[-1].request.system


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (["/skill frogs all  in the\npond"], "all in the pond"),
        (["/frogs"], "/frogs"),
        (["/frogs", "and toads?"], "and toads?"),
        (["/frogs " + "many " * 40], "many " * 11 + "many…"),
    ],
)
async def test_a_conversation_that_begins_with_a_skill_is_named_after_what_was_asked(
    tmp_path: Path, texts: list[str], title: str
) -> None:
    write(tmp_path)
    async with open_core(tmp_path, ScriptedModel(echo), commands=CommandTable()) as core:
        for text in texts:
            await core.ask(text)
        session = await current(core, SessionKey.main())
        session_id = session.session_id
        assert await core.store.read(lambda reader: sessions.title(reader, session_id)) == title
        assert "Use the skill" in (await core.transcript())[0].text


@pytest.mark.requirement("skills-command-dispatch")
async def test_a_skill_with_a_tool_calls_it_without_a_model(tmp_path: Path) -> None:
    write(tmp_path, more=CALLS.format(tool="count"))
    model = ScriptedModel(echo)
    async with open_core(
        tmp_path, model, commands=CommandTable(), tools=(Read(), Counting())
    ) as core:
        assert (await core.ask("/frogs all of them")).payloads == (
            "counted command=all of them commandName=frogs skillName=frogs",
        )
        assert model.requests == []
        kinds = [type(message) for message in await core.transcript()]
        assert kinds[1:] == [AssistantMessage, ToolResultMessage, AssistantMessage]
        assert (await core.ask("and now?")).payloads == ("echo: and now?",)
        read = [message.text for message in model.requests[0].request.history.messages]
        assert sum("counted" in text for text in read) == 1, "the answer is a notice"


async def test_a_tool_gets_only_the_arguments_of_its_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"command": {}}, "additionalProperties": False}
    tool = Counting()
    tool.spec = ToolSpec("count", "Counts.", schema)
    write(tmp_path, more=CALLS.format(tool="count"))
    model, table = ScriptedModel(echo), CommandTable()
    async with open_core(tmp_path, model, commands=table, tools=(Read(), tool)) as core:
        assert (await core.ask("/frogs all")).payloads == ("counted command=all",)


@pytest.mark.requirement("skills-command-dispatch")
async def test_the_call_of_a_skill_has_the_rights_of_its_sender_only(tmp_path: Path) -> None:
    write(tmp_path, more=CALLS.format(tool="asking"))
    async with open_core(
        tmp_path, ScriptedModel(echo), commands=CommandTable(), tools=(Read(), AskingTool())
    ) as core:
        assert "denied by the rule on-miss" in (await core.ask("/frogs go")).payloads[0]
        guest = replace(request("/frogs go", "guest"), origin=Origin.STRANGER, rights=Rights.OPEN)
        assert "Unknown command `/frogs`" in await answer_to(core, guest)
        listed = replace(guest, run_id=RunId("listed"), rights=Rights.LISTED)
        assert "denied by the rule" in await answer_to(core, listed)
        offered = replace(request("/frogs go", "group"), skills=("toads",))
        assert "Unknown command `/frogs`" in await answer_to(core, offered)


async def test_a_person_on_a_platform_gives_the_command_within_their_rights(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    write(tmp_path, "newts", CALLS.format(tool="count"))
    model, table = ScriptedModel(echo), CommandTable()
    async with open_core(tmp_path, model, commands=table, tools=(Read(), Counting())) as core:
        await receive(core, "/frogs here?", "m1", sender="alice")
        await receive(core, "/newts", "m2", sender="alice")
        texts = [text for _, text in await delivered(core)]
        assert 'Use the skill "frogs" for this request' in texts[0]
        assert "Unknown command `/newts`" in texts[1]
        assert "read" not in [tool.name for tool in model.requests[0].request.tools]
