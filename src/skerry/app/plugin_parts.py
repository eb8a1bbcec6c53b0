"""Connects events, services, channels and models of plugins to the gateway."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct, field

from skerry.app.services import Services
from skerry.gateway.broadcast import Broadcast
from skerry.model.errors import PluginError
from skerry.ports.channel import ChannelAdapter, Inbox
from skerry.ports.model import Models
from skerry.providers.catalog import Catalog
from skerry.providers.retry import RetryingProvider
from skerry.runtime.delivery import Sender, Senders, receive
from skerry.sdk.registrations import Registered, Service
from skerry.sdk.slots import SlotClaims


class PluginParts(Struct, frozen=True):
    """Implements `plugins.loader.Gateway`. Call it in the event loop only."""

    broadcast: Broadcast
    services: Services
    delivery: Senders
    sender: Callable[[ChannelAdapter], Sender]
    inbox: Inbox
    models: Models
    claims: SlotClaims = field(default_factory=SlotClaims)

    def connect(self, plugin: str, registered: Registered) -> None:
        """Starts the events, services, channels and models of a plugin.

        Raises:
            PluginError: a name is in use; nothing is started.
        """
        self._check(registered)
        loop = asyncio.get_running_loop()

        def tell(name: str, payload: Any) -> None:
            if self.broadcast.has(name):
                loop.call_soon_threadsafe(self.broadcast.send, name, payload)

        for event in registered.events:
            self.broadcast.allow(event.name, event.need)
            event.tell = tell
        services: list[tuple[str, Service]] = list(registered.services)
        for adapter in registered.channels:
            sender = self.sender(adapter)
            self.delivery.senders[adapter.channel, adapter.account] = sender
            name = f"{adapter.channel}/{adapter.account}"
            services.append((f"{name} send", sender.run))
            services.append((f"{name} receive", partial(receive, adapter, self.inbox)))
        self._offer(registered)
        if services:
            self.services.start(plugin, services)
        self._claim(plugin, registered)

    def _claim(self, plugin: str, registered: Registered) -> None:
        """Stores the memory, the search and the embedding model of the plugin as claims."""
        if registered.memory is not None:
            self.claims.memory[plugin] = registered.memory
        if registered.search is not None:
            self.claims.searches[plugin] = registered.search
        if registered.embedding is not None:
            self.claims.embeddings[plugin] = registered.embedding

    def _offer(self, registered: Registered) -> None:
        """Adds the models and the wire formats of the plugin to the catalogue."""
        if isinstance(self.models, Catalog):
            for api in registered.model_apis:
                self.models.add_api(api)
            for offered in registered.models:
                retrying = RetryingProvider(offered.provider)
                self.models.added |= {model.ref: (retrying, model) for model in offered.models}

    def disconnect(self, plugin: str, registered: Registered) -> None:
        """Stops all parts of the plugin; unsent messages of its channels stay in the outbox."""
        self.services.stop(plugin)
        for claims in (self.claims.memory, self.claims.searches, self.claims.embeddings):
            claims.pop(plugin, None)
        for event in registered.events:
            event.tell = None
            self.broadcast.forbid(event.name)
        for adapter in registered.channels:
            del self.delivery.senders[adapter.channel, adapter.account]
        if isinstance(self.models, Catalog):
            for offered in registered.models:
                for model in offered.models:
                    del self.models.added[model.ref]
            for api in registered.model_apis:
                self.models.remove_api(api)

    def _check(self, registered: Registered) -> None:
        for adapter in registered.channels:
            if (adapter.channel, adapter.account) in self.delivery.senders:
                name = f"{adapter.channel}/{adapter.account}"
                raise PluginError(f"The channel {name} exists already.", "Name another account.")
        for event in registered.events:
            if self.broadcast.has(event.name):
                raise PluginError(f"The event {event.name} exists already.", "Rename it.")
