"""Methods of the gateway that a plugin brings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class MethodCall:
    """Who asks."""

    scopes: tuple[str, ...]
    connection_id: str


@dataclass(frozen=True, slots=True)
class GatewayMethod:
    """One method, as `PluginApi.register_gateway_method` describes it."""

    name: str
    params: type[BaseModel]
    run: Callable[[Any, MethodCall], Awaitable[Any]]
    scope: str
    plugin: str
