"""The methods that a conversation does not need: imported with the first call of one."""

from typing import Any, Final

from skerry.gateway.method import Method
from skerry.gateway.methods import (
    agents,
    extension,
    markdown,
    models,
    polled,
    stubs,
)

METHODS: Final[tuple[Method[Any], ...]] = (
    *agents.METHODS,
    *models.METHODS,
    *markdown.METHODS,
    *stubs.METHODS,
    *polled.METHODS,
    *extension.METHODS,
)
