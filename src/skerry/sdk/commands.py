"""Chat commands of plugins: the call, and the error of a wrong one."""

from skerry.commands.table import CommandCall, CommandError

__all__ = ("CommandCall", "CommandError")
