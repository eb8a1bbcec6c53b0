"""Tools that a run is offered: asked once for each caller, until what decides changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from skerry.config.root import Config
from skerry.config.tools import ToolsConfig
from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.model import ModelInfo
from skerry.ports.tool import Tool, ToolContext
from skerry.runtime.toolbox import MAX_CACHED, Toolbox

MODEL = ModelInfo("openai", "m", "m", 8_000, 1_000)
OWNER = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)
GROUP = Caller(SessionKey.parse("agent:main:matrix:group:1"), PeerKind.GROUP, Origin.STRANGER)


class _NoParams(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Counting:
    """A tool that counts how often it is asked whether it is offered."""

    verb = Verb.USE

    def __init__(self, name: str, decide: Callable[[], bool] = lambda: True) -> None:
        self.spec = ToolSpec(name, "Count.", _NoParams.model_json_schema())
        self.callers: list[Caller] = []
        self._decide = decide

    def is_offered(self, caller: Caller) -> bool:
        self.callers.append(caller)
        return self._decide()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        raise NotImplementedError


def config(home: Path, **tools: Any) -> Config:
    section = ToolsConfig.model_validate(tools)
    return Config(state_dir=home, path=home / "skerry.json", tools=section)


def names(tools: Any) -> list[str]:
    return [tool.spec.name for tool in tools]


def box(*tools: Tool) -> Toolbox:
    return Toolbox(lambda: tools)


def test_a_tool_of_ours_is_asked_once_for_each_caller_and_model(tmp_path: Path) -> None:
    tool, present = Counting("count"), config(tmp_path)
    tools = box(tool)
    for _ in range(3):
        assert names(tools.offered(OWNER, present, MODEL)) == ["count"]
    assert tool.callers == [OWNER]
    other_model = ModelInfo("openai", "n", "m", 8_000, 1_000)
    assert names(tools.offered(OWNER, present, other_model)) == ["count"]
    assert tool.callers == [OWNER, OWNER]
    assert names(tools.offered(GROUP, present, MODEL)) == []


def test_another_configuration_decides_again(tmp_path: Path) -> None:
    tools = box(Counting("count"), Counting("sum"))
    assert names(tools.offered(OWNER, config(tmp_path), MODEL)) == ["count", "sum"]
    denied = config(tmp_path, deny=["sum"])
    assert names(tools.offered(OWNER, denied, MODEL)) == ["count"]
    assert names(tools.offered(OWNER, config(tmp_path), MODEL)) == ["count", "sum"]


def test_a_tool_of_a_plugin_is_asked_each_time_and_comes_and_goes(tmp_path: Path) -> None:
    present, answers = config(tmp_path), [True, False, True]
    builtin, added = Counting("count"), Counting("swim", lambda: answers.pop(0))
    tools = box(builtin)
    assert names(tools.offered(OWNER, present, MODEL)) == ["count"]
    tools.plugins = {"swim": added}
    offers = [names(tools.offered(OWNER, present, MODEL)) for _ in range(3)]
    assert offers == [["count", "swim"], ["count"], ["count", "swim"]]
    assert list(tools) == ["count", "swim"]
    assert tools["swim"] is added
    tools.plugins = {}
    assert names(tools.offered(OWNER, present, MODEL)) == ["count"]
    assert len(tools) == 1


def test_tools_are_made_once_at_the_first_look(tmp_path: Path) -> None:
    built: list[Tool] = []

    def make() -> list[Tool]:
        built.append(Counting("count"))
        return built

    tools = Toolbox(make)
    assert built == []
    assert names(tools.offered(OWNER, config(tmp_path), MODEL)) == ["count"]
    assert list(tools) == ["count"]
    assert len(built) == 1


def test_answers_that_are_forgotten_are_asked_for_again(tmp_path: Path) -> None:
    tool, present = Counting("count"), config(tmp_path)
    tools = box(tool)
    for _ in range(2):
        tools.offered(OWNER, present, MODEL)
        tools.forget()
    assert tool.callers == [OWNER, OWNER]


def test_a_model_without_tools_is_offered_none(tmp_path: Path) -> None:
    small = ModelInfo("openai", "s", "m", 8_000, 1_000, supports_tools=False)
    assert names(box(Counting("count")).offered(OWNER, config(tmp_path), small)) == []


def test_no_more_than_a_number_of_answers_is_kept(tmp_path: Path) -> None:
    tool, present = Counting("count"), config(tmp_path)
    tools = box(tool)
    tools.offered(OWNER, present, MODEL)
    for number in range(MAX_CACHED):
        key = SessionKey.parse(f"agent:main:matrix:direct:{number}")
        caller = Caller(key, PeerKind.DIRECT, Origin.OWNER, is_private=True)
        tools.offered(caller, present, MODEL)
    count = len(tool.callers)
    tools.offered(OWNER, present, MODEL)
    assert tool.callers[count:] == [OWNER], "the first answers were dropped"
