"""`skerry tools list` and `explain`: prints the decisions on tools, from the configuration."""

import os
from argparse import Namespace
from typing import Any

from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json, styled, table
from skerry.config.load import load_good
from skerry.features.tools.cli import FOREIGN
from skerry.features.tools.explain import ToolQuestion, explain, listed
from skerry.model.origin import Origin
from skerry.policy.tool_names import CORE, canonical
from skerry.policy.tool_policy import warnings

_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}


def run(arguments: Namespace) -> int:
    """Runs `skerry tools list` or `explain`; returns the exit code."""
    config = load_good(os.environ, fetch=False).config
    question = ToolQuestion(
        getattr(arguments, "tool", ""),
        arguments.agent or "",
        arguments.session,
        arguments.provider,
        Origin(arguments.origin),
        tuple(key.lower() for key in arguments.sender),
        arguments.channel.lower(),
        frozenset(Origin.TOOL if name in FOREIGN else Origin(name) for name in arguments.taint),
        getattr(arguments, "host", None) or "",
        getattr(arguments, "path", None) or "",
    )
    if arguments.action == "explain":
        if not question.tool.strip():
            remedy = "Pass a name: skerry tools explain exec"
            raise FailedError("The name of the tool is empty.", remedy, 2)
        answer = explain(config, question)
        if (canonical(question.tool) or question.tool) not in CORE:
            name = one_line(question.tool)
            notice(f"This program has no tool {name!r}; it is treated as a tool of a plugin.")
        show_json(answer) if arguments.json else _explain(answer)
    else:
        rows = listed(config, question)
        show_json({"tools": rows}) if arguments.json else _list(rows)
    agents = [arguments.agent] if arguments.agent else config.agents.ids
    every = {entry: None for agent in agents for entry in warnings(config.tool_rules(agent))}
    for entry in every:
        name = f" {one_line(entry.entry)!r}" if entry.entry else ""
        notice(f"{entry.path}:{name} {entry.message}.")
    return 0


def _explain(answer: dict[str, Any]) -> None:
    decision = answer["decision"]
    show(f"{one_line(answer['tool'])}: {styled(decision, _STYLES[decision])} ({answer['rule']})")
    if answer["reason"]:
        reason = one_line(answer["reason"])
        show(f"{reason[:1].upper()}{reason[1:]}.")
    show()
    show(table([("LAYER", "EFFECT", "RULE"), *map(_row, answer["trail"])]))


def _row(step: dict[str, str]) -> tuple[str, str, str]:
    return step["layer"], step["effect"], one_line(step["rule"])


def _list(rows: list[dict[str, Any]]) -> None:
    lines = [(row["tool"], row["decision"], row["rule"]) for row in rows]
    show(table([("TOOL", "DECISION", "RULE"), *lines]))
    if any(row["rule"] == "not-offered" for row in rows):
        notice("Tools that are not offered must be configured: see skerry tools explain TOOL")
