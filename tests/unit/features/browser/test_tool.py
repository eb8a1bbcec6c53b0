"""The tool without a browser: its offer, its gate, and calls that start none."""

from pathlib import Path
from typing import Any

import pytest

from skerry.config.root import Config
from skerry.features.browser.tool import BrowserTool
from skerry.model.errors import ToolError
from skerry.model.ids import RunId, SessionId
from skerry.policy.decide import NO_LAYERS
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import call_of
from skerry.runtime.tool_calls import CallGate, assessed
from tests.support.browsing import READER, TAINTED, Configured
from tests.support.mcp import OWNER

GATE = CallGate(RunId("r"), SessionId("s"))


def refuse(*_: Any) -> None:
    raise AssertionError("nothing may be started")


def tool(home: Path, **settings: Any) -> tuple[BrowserTool, Configured]:
    configured = Configured(home, refuse, **settings)
    return BrowserTool(configured.host), configured


def test_the_tool_is_offered_only_when_it_is_enabled(tmp_path: Path) -> None:
    made, configured = tool(tmp_path)
    assert made.is_offered(OWNER)
    configured.set(enabled=False)
    assert not made.is_offered(OWNER)
    configured.config = Config(state_dir=tmp_path, path=tmp_path / "skerry.json")
    assert not made.is_offered(OWNER)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("status", "No browser runs. Use open with a url."),
        ("stop", "No browser runs."),
        ("tabs", "No browser runs: no tab is open."),
    ],
)
async def test_questions_about_the_browser_start_none(
    tmp_path: Path, action: str, text: str
) -> None:
    made, _ = tool(tmp_path)
    assert (await made.run({"action": action}, READER)).text == text


async def test_input_needs_an_open_page(tmp_path: Path) -> None:
    made, _ = tool(tmp_path)
    arguments = {"action": "act", "kind": "press", "key": "Enter"}
    with pytest.raises(ToolError, match="No page is open"):
        await assessed(made, arguments, TAINTED, GATE)


async def test_reading_is_allowed_in_a_tainted_run(tmp_path: Path) -> None:
    made, _ = tool(tmp_path)
    arguments = {"action": "open", "url": "http://a.example/"}
    assessment = await assessed(made, arguments, TAINTED, GATE)
    assert assessment.effect is ToolEffect.ALLOW


class Foreign(BrowserTool):
    """A tool that a plugin registers under the same name."""

    plugin = "foreign"


def test_a_tool_of_a_plugin_does_not_exempt_its_calls(tmp_path: Path) -> None:
    made, configured = tool(tmp_path)
    arguments = {"action": "snapshot"}
    assert call_of(made, arguments, TAINTED, NO_LAYERS).reads
    assert not call_of(Foreign(configured.host), arguments, TAINTED, NO_LAYERS).reads
    assert not call_of(made, {"action": "unknown"}, TAINTED, NO_LAYERS).reads
