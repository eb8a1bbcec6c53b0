"""Results of the checks that a plugin adds to `skerry doctor`."""

from skerry.ports.checks import Check, Level

__all__ = ("Check", "Level")
