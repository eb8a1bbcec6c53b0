"""Alternative names of tool parameters, as other programs use them."""

from collections.abc import Mapping
from typing import Any

from skerry.model.errors import ToolError


def named(
    arguments: Mapping[str, Any], aliases: Mapping[str, str], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Returns the arguments with each alias replaced by the name of its parameter.

    Args:
        arguments: Arguments as the model wrote them.
        aliases: Names of parameters by their aliases.
        required: Names of parameters that must be present.

    Raises:
        ToolError: a parameter is given under two names, or a required one is missing.
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
