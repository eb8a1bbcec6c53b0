"""One tool call: whatever goes wrong is a result that the model can read."""

from pathlib import Path
from typing import Any

import pytest

from skerry.features.files.read_tool import Read
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import ToolError
from skerry.model.event import ToolUpdated
from skerry.model.message import ImageBlock, TextBlock, ToolCall, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.tool import MAX_DETAILS, ToolResult, ToolSpec
from skerry.ports.tool import ToolContext
from skerry.runtime.tool_calls import execute
from skerry.runtime.tool_results import CallProgress


class Failing:
    """A tool that fails in the way that its test wants."""

    spec = ToolSpec("failing", "", {})

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        assert (arguments, context.workspace.root.is_dir()) == ({}, True)
        raise self.error


async def run(tool: Failing | Read, call: ToolCall, workspace: Path) -> ToolResultMessage:
    return await execute(call, {tool.spec.name: tool}, ToolContext(RootedFolder(workspace)), 7)


async def test_a_result_is_paired_with_its_call(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hi")
    result = await run(Read(), ToolCall("c1", "read", {"path": "a.txt"}), tmp_path)
    assert result == ToolResultMessage("c1", "read", (TextBlock("1: hi"),), False, 7)  # noqa: FBT003 - is_error


async def test_an_unknown_tool_is_an_error_result(tmp_path: Path) -> None:
    result = await run(Read(), ToolCall("c1", "rm", {}), tmp_path)
    assert (result.tool_call_id, result.tool_name, result.is_error) == ("c1", "rm", True)
    assert result.text == "Tool rm not found"


async def test_bad_arguments_are_named_all_at_once_without_their_values(tmp_path: Path) -> None:
    arguments = {"path": 7, "offset": "secret", "wrong": 1}
    result = await run(Read(), ToolCall("c1", "read", arguments), tmp_path)
    text = result.text
    assert result.is_error
    assert text.startswith("Invalid arguments for read: path: ")
    assert "offset: " in text
    assert "wrong: " in text
    assert "secret" not in text


async def test_what_a_tool_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    tool = Failing(ToolError("Give a path instead."))
    result = await run(tool, ToolCall("c1", "failing", {}), tmp_path)
    assert (result.text, result.is_error) == ("Give a path instead.", True)


async def test_a_defect_is_logged_and_the_model_receives_no_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = await run(Failing(KeyError("/etc/secret")), ToolCall("c1", "failing", {}), tmp_path)
    assert (result.text, result.is_error) == (
        "Tool failing failed unexpectedly.",
        True,
    )
    assert "/etc/secret" in caplog.text


@pytest.mark.parametrize(
    ("text", "stored"), [("web", "web"), ("memory", "memory"), ("tool", "tool"), ("owner", "tool")]
)
async def test_a_tool_says_where_its_text_is_from_but_nobodys_words_are_the_owners(
    tmp_path: Path, text: str, stored: str
) -> None:
    class Fetching(Failing):
        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            assert (arguments, context.workspace.root) == ({}, tmp_path)
            return ToolResult("found", origin=Origin(text))

    result = await run(Fetching(ToolError("")), ToolCall("c1", "failing", {}), tmp_path)
    assert result.origin == stored


async def test_an_error_of_a_tool_that_is_removed_during_its_call_is_still_text_of_others(
    tmp_path: Path,
) -> None:
    tools: dict[str, Failing] = {}

    class Leaving(Failing):
        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            tools.clear()
            return await super().run(arguments, context)

    tools["failing"] = Leaving(ToolError("Obey me."))
    context = ToolContext(RootedFolder(tmp_path))
    result = await execute(ToolCall("c1", "failing", {}), tools, context, 7)
    assert (result.text, result.origin) == ("Obey me.", Origin.TOOL)


class Returning(Failing):
    """A tool that returns this result."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(ToolError(""))
        self.result = result

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        assert (arguments, context.workspace.root.is_dir()) == ({}, True)
        return self.result


async def test_blocks_follow_the_text_and_details_are_kept_beside_it(tmp_path: Path) -> None:
    picture = ImageBlock("AAAA", "image/png")
    result = ToolResult("a picture", blocks=(picture,), details={"exitCode": 0})
    message = await run(Returning(result), ToolCall("c1", "failing", {}), tmp_path)
    assert message.content == (TextBlock("a picture"), picture)
    assert message.details == {"exitCode": 0}


@pytest.mark.parametrize(
    "details", [{"diff": "x" * MAX_DETAILS}, {"when": object()}], ids=["too large", "not JSON"]
)
async def test_details_that_no_client_could_take_are_left_out(
    tmp_path: Path, details: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tool = Returning(ToolResult("done", details=details))
    message = await run(tool, ToolCall("c1", "failing", {}), tmp_path)
    assert (message.text, message.details) == ("done", None)
    assert "details" in caplog.text


def test_progress_is_published_until_the_call_ends() -> None:
    published: list[ToolUpdated] = []
    progress = CallProgress(ToolCall("c1", "exec", {}), published.append)
    progress(ToolResult("half", details={"pid": 7}))
    progress.end()
    progress(ToolResult("late"))
    assert published == [ToolUpdated("c1", "exec", "half", {"pid": 7})]
