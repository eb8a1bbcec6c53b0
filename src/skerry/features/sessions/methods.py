"""The methods for conversations: list, change, search, prune and retry them."""

from typing import Any, Final

from skerry.features.sessions import (
    change_methods,
    listing_methods,
    prune_methods,
    retry_methods,
    search_methods,
    taint_methods,
)
from skerry.gateway.method import Method

METHODS: Final[tuple[Method[Any], ...]] = (
    *listing_methods.METHODS,
    *change_methods.METHODS,
    *prune_methods.METHODS,
    *search_methods.METHODS,
    *retry_methods.METHODS,
    *taint_methods.METHODS,
)
