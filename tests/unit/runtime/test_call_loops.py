"""A run whose model makes the same call again and again."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from skerry.config.tools import AgentTools, LoopDetectionConfig, ToolsConfig
from skerry.testing.model import ScriptedModel
from tests.support.core import open_core
from tests.support.hooks import READ, results

LOW_THRESHOLDS = LoopDetectionConfig(
    warning_threshold=2, critical_threshold=3, global_circuit_breaker_threshold=4
)


async def test_the_model_is_told_and_then_the_call_is_denied_with_its_rule(tmp_path: Path) -> None:
    model = ScriptedModel([*[[READ]] * 6, ["done"]])
    async with open_core(tmp_path, model) as core:
        tools = ToolsConfig(loop_detection=LOW_THRESHOLDS)
        core.configs.append(core.configs[0].model_copy(update={"tools": tools}))
        (core.workspace / "note.txt").write_text("here", encoding="utf-8")
        await core.ask("hi")
        texts = results(await core.transcript())
    assert ["made 2 times" in text for text in texts] == [False, False, True, False, False, False]
    assert ["rule loop-breaker" in text for text in texts] == [False] * 4 + [True] * 2
    assert all("here" in text for text in texts[:4])


def test_the_section_of_an_agent_is_the_only_one() -> None:
    common = ToolsConfig(loop_detection=LOW_THRESHOLDS)
    assert common.loops(None).warning == 2
    agent_tools = AgentTools(loop_detection=LoopDetectionConfig(enabled=False))
    assert not common.loops(agent_tools).enabled
    assert ToolsConfig().loops(None).enabled


@pytest.mark.parametrize("numbers", [(2, 2, 4), (2, 4, 4), (5, 4, 6)])
def test_the_numbers_must_increase(numbers: tuple[int, int, int]) -> None:
    names = ("warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold")
    with pytest.raises(ValidationError, match="must increase"):
        LoopDetectionConfig.model_validate(dict(zip(names, numbers, strict=True)))
