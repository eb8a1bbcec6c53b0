"""`skerry exec check`: decides on a command for this machine without running it."""

import json
import os
import shlex
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from skerry.cli.failure import FailedError
from skerry.cli.json_lines import decoded
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.config.load import load
from skerry.config.root import Config
from skerry.features.exec.command_check import CommandDecision, ExecRules, check
from skerry.features.exec.exec_settings import rules_of
from skerry.features.exec.modes import ASKS, SECURITIES
from skerry.infra import sqlite
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.ids import AgentId
from skerry.policy.effect import ToolEffect
from skerry.store import DATABASE, Reader, allowlist

MAX_LINE: Final = 1_000_000
"""Maximum length of a line of standard input, in bytes."""


class _LineError(Exception):
    """A line of standard input is not a valid request."""


class _Agent(Struct, frozen=True):
    """The agent whose commands are decided."""

    config: Config
    name: AgentId
    patterns: tuple[str, ...]
    """Patterns that a person allowed permanently."""


def _stored(config: Config, agent: AgentId) -> tuple[str, ...]:
    """Returns the patterns in the database; empty when it cannot be read."""
    file = config.state_dir / DATABASE
    if not file.exists():
        return ()
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            rows = allowlist.patterns(Reader(connection), agent)
    except sqlite3.Error as error:
        notice(one_line(f"The patterns in {file} cannot be read: {error}. They are ignored."))
        return ()
    return tuple(row.pattern for row in rows)


def run(arguments: Namespace) -> int:
    """Runs `skerry exec check`; returns the exit code: 0 for every decision."""
    config = load(os.environ, fetch=False).config
    agent = AgentId(arguments.agent or config.agents.default_id)
    if agent not in config.agents.ids:
        configured = ", ".join(config.agents.ids)
        raise FailedError(f"Unknown agent {one_line(agent)}.", f"Configured agents: {configured}.")
    if arguments.stdin == bool(arguments.words):
        remedy = "Pass a command after --, or --stdin: skerry exec check -- git status"
        raise FailedError("Either a command or --stdin is required.", remedy, 2)
    if arguments.stdin:
        anyio.run(_lines, _Agent(config, agent, _stored(config, agent)), sys.stdin.buffer)
        return 0
    words = arguments.words
    request = {
        "command": words[0] if len(words) == 1 else shlex.join(words),
        "security": arguments.security,
        "ask": arguments.ask,
    }
    try:
        decision = anyio.run(_decision, _Agent(config, agent, _stored(config, agent)), request)
    except _LineError as error:
        raise FailedError(
            f"The command cannot be read: {error}.", "Encode the command as UTF-8."
        ) from error
    if arguments.json:
        show_json({"id": None, "command": request["command"], **decision.as_json()})
    else:
        _show(decision)
    return 0


async def _lines(agent: _Agent, stream: BinaryIO) -> None:
    """Answers each line before it reads the next."""
    while line := _line(stream):  # no other task waits for this thread
        if line.isspace():
            continue
        answer = await _answer(agent, line)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _line(stream: BinaryIO) -> bytes:
    """Returns the next line; of a longer line only its first `MAX_LINE` + 1 bytes."""
    line = stream.readline(MAX_LINE + 1)
    block = line
    while len(block) == MAX_LINE + 1 and not block.endswith(b"\n"):
        block = stream.readline(MAX_LINE + 1)
    return line


async def _answer(agent: _Agent, line: bytes) -> dict[str, Any]:
    request: Any = None
    try:
        request = _object(line)
        decision = await _decision(agent, request)
        return {"id": request.get("id"), **decision.as_json()}
    except _LineError as error:
        refused = CommandDecision(ToolEffect.DENY, "bad-line", str(error)).as_json()
        number = request.get("id") if isinstance(request, dict) else None
        return {"id": number, "error": {"code": "bad-line", "message": str(error)}, **refused}


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise _LineError(f"the line has more than {MAX_LINE} bytes")
    try:
        value = decoded(line)
    except (*UNREADABLE, RecursionError) as error:
        raise _LineError(f"the line is not JSON: {one_line(str(error))[:200]}") from error
    if not isinstance(value, dict):
        raise _LineError("the line is not a JSON object with id and command")
    return value


async def _decision(agent: _Agent, request: Mapping[str, Any]) -> CommandDecision:
    command, cwd = request.get("command"), request.get("cwd")
    security, ask = request.get("security"), request.get("ask")
    if not isinstance(command, str):
        raise _LineError("command must be a text")
    if cwd is not None and not isinstance(cwd, str):
        raise _LineError("cwd must be a text")
    if security is not None and security not in SECURITIES:
        raise _LineError(f"security must be one of {', '.join(SECURITIES)}")
    if ask is not None and ask not in ASKS:
        raise _LineError(f"ask must be one of {', '.join(ASKS)}")
    rules = rules_of(
        agent.config,
        agent.name,
        host="gateway",
        security=security,
        ask=ask,
        patterns=agent.patterns,
    )
    return await check(command, rules if cwd is None else _within(rules, agent, cwd))


def _within(rules: ExecRules, agent: _Agent, cwd: str) -> ExecRules:
    """Returns the rules for a command with this working directory."""
    try:
        root = agent.config.workspace(agent.name).resolve()
        return replace(rules, cwd=Path(cwd).resolve(), root=root)
    except (OSError, RuntimeError, ValueError) as error:
        raise _LineError("cwd is not the path of a folder") from error


def _show(decision: CommandDecision) -> None:
    show(one_line(f"{decision.decision.value} ({decision.rule}): {decision.reason}"))
    rows = [("COMMAND", "PROGRAM", "DECISION", "RULE")]
    rows += [
        (
            one_line(shlex.join(segment.argv)),
            one_line(segment.program or "-"),
            segment.decision.value,
            segment.rule,
        )
        for segment in decision.segments
    ]
    if decision.segments:
        show(table(rows))
