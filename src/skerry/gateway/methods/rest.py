"""The methods that a conversation does not need: imported with the first call of one."""

from typing import Any, Final

from skerry.gateway.method import Method
from skerry.gateway.methods import (
    agents,
    extension,
    markdown,
    models,
)

METHODS: Final[tuple[Method[Any], ...]] = (
    *agents.METHODS,
    *models.METHODS,
    *markdown.METHODS,
    *extension.METHODS,
)
