"""Commands that a plugin brings."""

from skerry.commands.table import CommandCall, CommandError

__all__ = ("CommandCall", "CommandError")
