"""What the gateway is given by the application."""

from collections.abc import Callable
from dataclasses import dataclass, field

from skerry.config.root import Config
from skerry.gateway.broadcast import Broadcast
from skerry.gateway.clients import Clients
from skerry.gateway.health import Health
from skerry.gateway.news import News
from skerry.gateway.nodes import Nodes
from skerry.gateway.notices import Notices
from skerry.gateway.presence import Presence
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.ports.dispatch import Dispatcher
from skerry.ports.model import Models, Setup
from skerry.store import Store


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """Everything that methods and connections use.

    `config` is called at each request, so that who may do what follows the present configuration.
    """

    config: Callable[[], Config]
    dispatcher: Dispatcher
    store: Store
    models: Models
    setup: Setup
    broadcast: Broadcast
    presence: Presence
    news: News
    clock: Clock
    started_ms: int
    health: Health
    notices: Notices
    clients: Clients = field(default_factory=Clients)
    nodes: Nodes = field(default_factory=Nodes)
    hooks: Hooks = field(default_factory=Hooks)
