"""Decisions on tools from a configuration, as a gateway would make them."""

from pathlib import Path
from typing import Any

from skerry.config.check import check
from skerry.config.root import Config
from skerry.features.tools.explain import ToolQuestion, decided
from skerry.policy.decide import Decision

HOME = Path("/nonexistent/skerry")


def config(tree: dict[str, Any]) -> Config:
    """Returns the configuration that a tree means."""
    return check(tree, state_dir=HOME, path=HOME / "skerry.json")[0]


def answer(tree: dict[str, Any], tool: str, **facts: Any) -> Decision:
    """Returns the decision on a tool; `facts` are fields of `ToolQuestion`."""
    return decided(config(tree), ToolQuestion(tool, **facts))


def effect(tree: dict[str, Any], tool: str, **facts: Any) -> str:
    """Returns the effect of the decision on a tool."""
    return str(answer(tree, tool, **facts).effect)


def allowed(tree: dict[str, Any], *tools: str, **facts: Any) -> set[str]:
    """Returns which of the tools are allowed."""
    return {tool for tool in tools if effect(tree, tool, **facts) == "allow"}
