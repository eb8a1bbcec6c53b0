"""Lazy modules: named at the top of a file, imported when an attribute is first read.

A package lists in its module `late` the modules that a start does not need:

    if TYPE_CHECKING:
        from skerry.app import trial as trial
        from skerry.plugins import loader as loader
    else:
        __getattr__ = late(__package__, loader="skerry.plugins.loader")

After `from skerry.app.late import loader`, the import happens at `loader.Plugins(...)`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


class Late:
    """A module that is imported when one of its attributes is read."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Returns an attribute of the module."""
        return getattr(import_module(self._name), attribute)


def late(package: str, **modules: str) -> Callable[[str], Late]:
    """Returns a module-level `__getattr__` that maps each name to a lazy module.

    Args:
        package: Package whose submodules the names stand for.
        modules: Full names of modules of other packages, by the attribute names.

    """

    def module(name: str) -> Late:
        if name.startswith("__"):  # asked for by the import system
            raise AttributeError(name)
        return Late(modules.get(name) or f"{package}.{name}")

    return module
