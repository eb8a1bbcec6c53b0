"""The command as a process of its own, against a scripted gateway."""

from tests.unit.cli.conftest import Command, command, environ, gateway

__all__ = ("Command", "command", "environ", "gateway")
