"""What the gateway is given by the application."""

from collections.abc import Callable
from dataclasses import dataclass

from skerry.config.root import Config
from skerry.gateway.broadcast import Broadcast
from skerry.gateway.health import Health
from skerry.gateway.notices import Notices
from skerry.gateway.presence import Presence
from skerry.infra.clock import Clock
from skerry.ports.dispatch import Dispatcher
from skerry.ports.model import Models, Setup
from skerry.store import Store


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """Everything that methods and connections use.

    `config` is called at each request, so that who may do what follows the present configuration.
    Without a `token` every program on this machine is let in.
    """

    config: Callable[[], Config]
    token: str | None
    dispatcher: Dispatcher
    store: Store
    models: Models
    setup: Setup
    broadcast: Broadcast
    presence: Presence
    clock: Clock
    started_ms: int
    health: Health
    notices: Notices
