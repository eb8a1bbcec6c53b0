"""Sections `gateway.nodes` and `canvasHost`: the use of nodes by agents."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from skerry.config.base import OpenSection, Section

_COMMAND: Final = re.compile(r"[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*")


def _pattern(text: str) -> str:
    if _COMMAND.fullmatch(text) is None:
        message = f"{text!r} is not the name of a command, such as camera.snap or camera.*"
        raise ValueError(message)
    return text


Commands = Annotated[
    tuple[Annotated[str, Field(max_length=128), AfterValidator(_pattern)], ...],
    Field(max_length=200),
]


class NodesConfig(Section):
    """Commands of nodes that agents may use. Clients use them within their scopes."""

    allow_commands: Commands = ()
    """Names of commands, such as `camera.snap`, that an agent of the owner runs without a question;
    `*` matches any characters. Others wait for an approval."""
    deny_commands: Commands = ()
    """Names of commands that no agent runs; they apply before `allowCommands`."""


class CanvasHostConfig(OpenSection):
    """Pages of workspaces that nodes display."""

    enabled: bool = False
    """Serves the files in `canvas/` of workspaces to connected nodes, below `/__openclaw__/`."""


def selects(patterns: Commands, command: str) -> bool:
    """Returns whether one of the patterns matches the command."""
    return any(fnmatchcase(command, pattern) for pattern in patterns)
