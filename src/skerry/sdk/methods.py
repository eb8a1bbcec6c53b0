"""Gateway methods of plugins."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from skerry.policy.access import Need, Role


class MethodCall(Struct, frozen=True):
    """The client that calls the method."""

    scopes: tuple[str, ...]
    """Scopes of the client, such as `operator.read`."""
    connection_id: str
    """Id of its WebSocket connection."""


class GatewayMethod(Struct, frozen=True):
    """One method; `PluginApi.register_gateway_method` describes the fields."""

    name: str
    """Full name, `<id>.<name>`."""
    params: type[BaseModel]
    run: Callable[[Any, MethodCall], Awaitable[Any]]
    scope: str
    plugin: str

    @property
    def need(self) -> Need:
        """Returns the role and scope that a caller needs."""
        return Need(Role.OPERATOR, self.scope)
