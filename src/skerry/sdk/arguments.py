"""Names of the arguments of tools: other programs' names for a parameter."""

from collections.abc import Mapping
from typing import Any

from skerry.model.errors import ToolError


def named(
    arguments: Mapping[str, Any], aliases: Mapping[str, str], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Returns the arguments by the names of the parameters.

    Raises:
        ToolError: a value is given under two names, or a required one is missing.
    """
    result: dict[str, Any] = {}
    for name, value in arguments.items():
        target = aliases.get(name, name)
        if target in result:
            raise ToolError(f"{target} is given twice, once as {name}. Give it once.")
        result[target] = value
    for name in required:
        if name not in result:
            raise ToolError(f"{name} required")
    return result
