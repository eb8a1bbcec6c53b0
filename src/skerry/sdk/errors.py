"""Errors that a plugin raises to report an expected failure."""

from skerry.model.errors import PluginError, SkerryError, ToolError

__all__ = ("PluginError", "SkerryError", "ToolError")
