"""Command-line commands of plugins: `skerry <id> ...`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct


class CliCall(Struct, frozen=True):
    """One call of the command: its arguments, the gateway, and the output."""

    arguments: Namespace
    ask: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    """Calls a method of the running gateway with parameters and returns its payload.

    Raises:
        ClientError: no gateway runs, or the method returned an error.
    """
    show: Callable[[str], None]
    """Prints one line; control characters are removed."""
    write: Callable[[str], None]
    """Prints text of several lines, such as a table; control characters are removed."""
    write_json: Callable[[object], None]
    """Prints a value as JSON."""
    notice: Callable[[str], None]
    """Prints one line to standard error."""


class CliCommand(Struct, frozen=True):
    """A command; `PluginApi.register_cli_command` describes the fields."""

    text: str
    add: Callable[[ArgumentParser], object]
    run: Callable[[CliCall], Awaitable[int]]
