"""Modules that are imported when they are first used, though a file names them at its top.

A package lists in a module `late` which modules a start does without:

    if TYPE_CHECKING:
        from skerry.app import trial as trial
        from skerry.plugins import loader as loader
    else:
        __getattr__ = late(__package__, loader="skerry.plugins.loader")

Who writes `from skerry.app.late import loader` pays at `loader.Plugins(...)`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


class Late:
    """A module that is imported when an attribute of it is read."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Returns an attribute of the module."""
        return getattr(import_module(self._name), attribute)


def late(package: str, **others: str) -> Callable[[str], Late]:
    """Returns a `__getattr__` for a module: each name is the module of this name in the package.

    Args:
        package: The package.
        others: Modules of other packages by their names.

    """

    def module(name: str) -> Late:
        if name.startswith("__"):  # asked for by the import system
            raise AttributeError(name)
        return Late(others.get(name) or f"{package}.{name}")

    return module
