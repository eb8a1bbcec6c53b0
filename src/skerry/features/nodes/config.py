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


DeviceId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commands = Annotated[
    tuple[Annotated[str, Field(max_length=128), AfterValidator(_pattern)], ...],
    Field(max_length=200),
]


class NodesConfig(Section):
    """Commands of nodes that agents may use, and nodes that speak for the owner."""

    allow_commands: Commands = ()
    """Names of commands, such as `camera.snap`, that an agent of the owner runs without a question;
    `*` matches any characters. Others wait for an approval."""
    deny_commands: Commands = ()
    """Names of commands that no agent runs; they apply before `allowCommands`."""
    owners: Annotated[tuple[DeviceId, ...], Field(max_length=100)] = ()
    """Ids of devices whose messages count as the owner's. Messages of other nodes are those of a
    person who is not the owner: without tools, memory and the main conversation."""


class CanvasHostConfig(OpenSection):
    """Pages of workspaces that nodes display."""

    enabled: bool = False
    """Serves the files in `canvas/` of workspaces to connected nodes, below `/__openclaw__/`."""


def selects(patterns: Commands, command: str) -> bool:
    """Returns whether one of the patterns matches the command."""
    return any(fnmatchcase(command, pattern) for pattern in patterns)
