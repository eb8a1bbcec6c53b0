"""Commands of the command line that a plugin brings: `skerry <id> ...`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct


class CliCall(Struct, frozen=True):
    """One command, as somebody typed it."""

    arguments: Namespace
    ask: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    """Asks the running gateway a method with parameters; raises `ClientError` without one."""
    show: Callable[[str], None]
    """Prints a line, without control characters that a terminal obeys."""
    write: Callable[[str], None]
    """Prints text as it is but for control characters: columns, several lines."""
    write_json: Callable[[object], None]
    """Prints a value for scripts."""
    notice: Callable[[str], None]
    """Prints a line on standard error, for people."""


class CliCommand(Struct, frozen=True):
    """The command, as `PluginApi.register_cli_command` describes it."""

    text: str
    add: Callable[[ArgumentParser], object]
    run: Callable[[CliCall], Awaitable[int]]
