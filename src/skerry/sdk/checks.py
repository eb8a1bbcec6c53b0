"""Checks of `skerry doctor` that a plugin brings."""

from skerry.ports.checks import Check, Level

__all__ = ("Check", "Level")
