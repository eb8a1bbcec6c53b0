"""Methods of the gateway that a plugin brings."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from skerry.policy.access import Need, Role


class MethodCall(Struct, frozen=True):
    """Caller of the method."""

    scopes: tuple[str, ...]
    connection_id: str


class GatewayMethod(Struct, frozen=True):
    """One method, as `PluginApi.register_gateway_method` describes it."""

    name: str
    params: type[BaseModel]
    run: Callable[[Any, MethodCall], Awaitable[Any]]
    scope: str
    plugin: str

    @property
    def need(self) -> Need:
        """Returns the need that a caller must meet."""
        return Need(Role.OPERATOR, self.scope)
