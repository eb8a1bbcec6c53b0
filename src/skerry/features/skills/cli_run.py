"""`skerry skills list`, `info` and `check`, with or without a gateway."""

import os
from argparse import Namespace
from collections.abc import Iterator
from typing import Any, Final

import anyio

from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json, styled, table
from skerry.client.client import GatewayClient
from skerry.client.discover import URL, find
from skerry.config.load import load_good
from skerry.features.skills.report import status
from skerry.model.errors import ClientError, GatewayUnreachableError
from skerry.model.ids import agent_id
from skerry.sdk.features import bundled_skills
from skerry.workspace.skill_catalogue import SkillCatalogue

_KINDS: Final = {
    "bins": ("the program {}", "Install {}."),
    "anyBins": ("one of the programs {}", "Install one of {}."),
    "env": ("the variable {}", "Set {} in env.vars of the configuration."),
    "config": ("the setting {}", "Set {} with skerry config set."),
    "os": ("the system {}", "It does not run on this system."),
}
"""By kind of requirement: its text, and the remedy."""
_SHOWN: Final = 60
"""Characters of a description in the list."""


def run(arguments: Namespace) -> int:
    """Runs `skerry skills list`, `info` or `check`; returns the exit code."""
    answer = anyio.run(_status, arguments)
    match arguments.action:
        case "info":
            return _info(arguments, answer)
        case "check":
            return _check(arguments, answer)
        case _:
            return _list(arguments, answer)


async def _status(arguments: Namespace) -> dict[str, Any]:
    """Returns the skills of a gateway; without a gateway those of the state directory."""
    address = find(os.environ, url=arguments.url, token=arguments.token)
    params = {"agentId": agent_id(arguments.agent)} if arguments.agent else {}
    try:
        async with GatewayClient(address, scopes=("operator.read",)) as client:
            answer: dict[str, Any] = await client.request("skills.status", params)
            return answer
    except GatewayUnreachableError:
        if arguments.url or os.environ.get(URL):
            raise
    config = load_good(os.environ, fetch=False).config
    agent = agent_id(arguments.agent) if arguments.agent else config.agents.default_id
    if agent not in config.agents.ids:
        listed = ", ".join(config.agents.ids)
        raise ClientError(f"Agent {agent!r} does not exist.", f"Agents: {listed}.")
    catalogue = SkillCatalogue(os.environ, bundled=bundled_skills())
    notice("No gateway is running: skills of plugins are not listed.")
    offline: dict[str, Any] = status(catalogue.load(config, agent, every=True), config, agent)
    return offline


def _list(arguments: Namespace, answer: dict[str, Any]) -> int:
    rows = [row for row in answer["skills"] if row["eligible"] or not arguments.eligible]
    if arguments.json:
        show_json(answer | {"skills": rows})
        return 0
    if not rows:
        show(f"No skills. Write {answer['workspaceDir']}/skills/NAME/SKILL.md to add one.")
    else:
        lines = [("NAME", "SOURCE", "STATE", "DESCRIPTION"), *map(_row, rows)]
        show(table(lines))
    _refer_to_check(answer)
    return 0


def _row(row: dict[str, Any]) -> tuple[str, str, str, str]:
    source = row["source"] if row["tier"] == "plugin" else row["tier"]
    return (
        one_line(row["name"]),
        one_line(source),
        one_line(_state(row)),
        one_line(row["description"])[:_SHOWN],
    )


def _state(row: dict[str, Any]) -> str:
    if row["eligible"]:
        return "ready" if row["modelInvocable"] else "by command only"
    if row["disabledBy"]:
        return "off"
    return "not trusted" if row["doubt"] else "requirements missing"


def _problems(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the reasons why a skill is not used, each with its remedy."""
    name = row["name"]
    problems = []
    if key := row["disabledBy"]:
        remedy = f"Change {key}."
        if key == "skills.allowBundled":
            remedy = f"Run: skerry config set skills.entries.{row['skillKey']}.enabled true"
        problems.append((f"{key} disables it", remedy))
    if row["doubt"]:
        remedy = "Read the file, then run: skerry files trust"
        problems.append((f"its SKILL.md is not your text: {row['doubt']}", remedy))
    for kind, names in row["missing"].items():
        if names:
            text, remedy = _KINDS[kind]
            listed = ", ".join(names)
            if kind in {"bins", "anyBins"} and row["install"]:
                action = "info" if row["tier"] == "plugin" else "setup"
                remedy += f" Ways to install them: skerry skills {action} {name}"
            problems.append((f"{text.format(listed)} is missing", remedy.format(listed)))
    return problems


def _info(arguments: Namespace, answer: dict[str, Any]) -> int:
    folded = arguments.name.casefold()
    row = next((row for row in answer["skills"] if row["name"].casefold() == folded), None)
    if row is None:
        names = ", ".join(row["name"] for row in answer["skills"]) or "none"
        raise FailedError(f"Unknown skill {arguments.name!r}.", f"Skills: {names}.", 2)
    if arguments.json:
        show_json(row)
        return 0
    show(
        f"{one_line(row['name'])}: {styled(_state(row), 'green' if row['eligible'] else 'yellow')}"
    )
    hidden = [each["filePath"] for each in answer["hidden"] if each["name"].casefold() == folded]
    for label, text in (*_facts(row), *(("used instead of", path) for path in hidden)):
        if text:
            show(f"  {label}: {one_line(text)}")
    for problem, remedy in _problems(row):
        show(f"  not used: {one_line(problem)}. {one_line(remedy)}")
    return 0


def _facts(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields labels and texts about a skill; an empty text is left out."""
    yield "description", row["description"]
    yield "source", row["source"] if row["tier"] == "plugin" else row["tier"]
    yield "file", row["filePath"]
    yield "homepage", row["homepage"]
    yield "command", row["command"] and f"/{row['command']}"
    yield "calls", row["commandTool"] and f"the tool {row['commandTool']}, without a model"
    yield "in prompts", "" if row["modelInvocable"] else "no"
    for kind, names in row["requirements"].items():
        yield f"requires {kind}", ", ".join(names)
    for option in row["install"]:
        yield f"install {option['id']}", option["label"]


def _check(arguments: Namespace, answer: dict[str, Any]) -> int:
    """Prints the skills that are not used; returns 1 if a folder is broken."""
    if arguments.json:
        show_json(answer)
        return 1 if answer["faults"] else 0
    ready = [row for row in answer["skills"] if row["eligible"]]
    show(f"{len(ready)} of {len(answer['skills'])} skills can be used.")
    for row in answer["skills"]:
        for problem, remedy in _problems(row):
            show(f"{styled('off', 'yellow')} {one_line(row['name'])}: {one_line(problem)}.")
            show(f"    {one_line(remedy)}")
    for fault in answer["faults"]:
        show(f"{styled('broken', 'red')} {one_line(fault['problem'])}")
        if fault["remedy"]:
            show(f"    {one_line(fault['remedy'])}")
    for other in answer["hidden"]:
        show(f"{one_line(other['filePath'])} is not used: {one_line(other['hiddenBy'])} is.")
    return 1 if answer["faults"] else 0


def _refer_to_check(answer: dict[str, Any]) -> None:
    if answer["faults"]:
        notice(f"{len(answer['faults'])} skills are broken: skerry skills check")
