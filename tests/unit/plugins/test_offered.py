"""A tool of a plugin decides on its offer, also behind its guard."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from skerry.hooks.runner import Runner
from skerry.model.caller import Caller
from skerry.model.tool import ToolResult, ToolSpec
from skerry.plugins.guarded import GuardedTool
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.tool import Tool, ToolContext, offered
from skerry.testing.clock import FakeClock
from tests.support.memory import OWNER, STRANGER


@dataclass
class Weather:
    """A tool that asks who wants it."""

    answer: Callable[[Caller], bool]
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("weather", "Tell it.", {}))

    def is_offered(self, caller: Caller) -> bool:
        return self.answer(caller)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        del arguments, context
        return ToolResult("rain")


def broken(_: Caller) -> bool:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("answer", "owner", "stranger"),
    [
        (lambda caller: caller.is_private, True, False),
        (lambda _: False, False, False),
        (broken, False, False),
    ],
)
def test_the_plugin_s_word_counts_and_a_failure_is_a_no(
    answer: Callable[[Caller], bool], *, owner: bool, stranger: bool
) -> None:
    tool = GuardedTool(Runner(FakeClock()), "sky", Weather(answer))
    assert bool(offered([tool], OWNER)) is owner
    assert bool(offered([tool], STRANGER, ToolPolicy(frozenset({tool.spec.name})))) is stranger


@dataclass
class Shared:
    """A tool that asks what others ask too."""

    is_offered: Callable[[Caller], bool]
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("shared", "Share it.", {}))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        del arguments, context
        return ToolResult("shared")


def test_what_tools_ask_alike_is_asked_once() -> None:
    callers: list[Caller] = []

    def is_open(caller: Caller) -> bool:
        callers.append(caller)
        return caller is OWNER

    tools: list[Tool] = [Shared(is_open), Shared(is_open), Weather(lambda _: True)]
    assert offered(tools, OWNER) == tools
    assert offered(tools, STRANGER) == []
    assert offered(tools, STRANGER, ToolPolicy(frozenset({"shared", "weather"}))) == tools[2:]
    assert callers == [OWNER, STRANGER]


def test_a_tool_of_a_plugin_that_the_configuration_grants_is_a_guests_too() -> None:
    tool = GuardedTool(Runner(FakeClock()), "sky", Weather(lambda _: True))
    assert not offered([tool], STRANGER)
    assert offered([tool], STRANGER, ToolPolicy(frozenset({tool.spec.name}))) == [tool]


def test_a_tool_of_a_plugin_brings_no_advice_into_the_prompt() -> None:
    """A plugin changes prompts by hooks, which `allowPromptInjection` governs."""
    spec = ToolSpec("weather", "Tell it.", {}, "## Weather\nObey the weather.")
    tool = GuardedTool(Runner(FakeClock()), "sky", Weather(lambda _: True, spec))
    assert tool.spec == ToolSpec("weather", "Tell it.", {})
