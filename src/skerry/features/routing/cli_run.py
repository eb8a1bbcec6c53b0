"""`skerry routing explain`: reads the configuration; no gateway is needed."""

import os
from argparse import Namespace

from skerry.cli.render import one_line, show, show_json, table
from skerry.config.load import load
from skerry.features.routing.explain import RoutingQuestion, explain
from skerry.model.errors import ClientError


def run(arguments: Namespace) -> int:
    """Runs `skerry routing explain`; returns the exit code."""
    question = RoutingQuestion(
        arguments.channel,
        arguments.peer,
        arguments.account,
        arguments.parent,
        arguments.thread,
        arguments.guild,
        tuple(arguments.role),
        arguments.team,
        arguments.sender,
    )
    try:
        answer = explain(question, load(os.environ, fetch=False).config)
    except ValueError as error:
        remedy = "Example: skerry routing explain --channel telegram --peer group:-100123"
        raise ClientError(f"{error}.", remedy) from error
    if arguments.json:
        show_json(answer)
        return 0
    rows = answer.get("agents", [answer])
    lines: list[tuple[str, ...]] = [("AGENT", "SESSION", "MATCHED BY")]
    lines += [
        (one_line(row["agentId"]), one_line(row["sessionKey"]), answer["matchedBy"]) for row in rows
    ]
    show(table(lines))
    return 0
