"""Records of the parts that a plugin or a feature registers."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from skerry.commands.table import Command
from skerry.hooks.runner import Handler
from skerry.model.errors import PluginError
from skerry.model.skill import Skill
from skerry.policy.access import Need, Role
from skerry.ports.channel import ChannelAdapter
from skerry.ports.checks import Check
from skerry.ports.model import ModelInfo, ModelProvider
from skerry.ports.tool import Tool
from skerry.providers.model_apis import ModelApi
from skerry.sdk.cli import CliCommand
from skerry.sdk.embedding import EmbeddingProvider
from skerry.sdk.http import HttpRoute
from skerry.sdk.memory import SlotMemory
from skerry.sdk.methods import GatewayMethod
from skerry.sdk.search import SearchProvider

Service = Callable[[], Coroutine[Any, Any, None]]
"""Runs from the start of the gateway until it stops."""
DoctorCheck = Callable[[], Awaitable[Iterable[Check]]]
"""Returns checks of `skerry doctor`."""

MAX_EVENT: Final = 262_144
"""Limit of the payload of an event, in bytes of JSON."""


class Event:
    """An event of a plugin or feature; `event(payload)` sends it to the clients with its scope."""

    __slots__ = ("name", "need", "tell", "text")

    def __init__(self, name: str, scope: str, text: str) -> None:
        self.name = name
        self.need = Need(Role.OPERATOR, scope)
        self.text = text
        self.tell: Callable[[str, Any], None] | None = None
        """Sends a payload under a name, from any thread; None while the part is not in use."""

    def __call__(self, payload: Mapping[str, Any]) -> None:
        """Sends the event. May be called from any thread; does nothing while no gateway runs.

        Raises:
            PluginError: the payload is not JSON, or has more than `MAX_EVENT` bytes.
        """
        try:
            encoded = msgspec.json.encode(payload)
        except (TypeError, ValueError) as error:
            raise PluginError(f"The payload of {self.name} is not JSON: {error}.") from error
        if len(encoded) > MAX_EVENT:
            raise PluginError(f"The payload of {self.name} has more than {MAX_EVENT} bytes.")
        if self.tell is not None:
            self.tell(self.name, msgspec.json.decode(encoded))


class Panel(Struct, frozen=True):
    """A panel of the page: a folder with `panel.js`, which the page imports."""

    plugin: str
    title: str
    folder: Path


class ProvidedModels(Struct, frozen=True):
    """Models of one provider, and the provider that calls them."""

    provider: ModelProvider
    models: tuple[ModelInfo, ...]


class Registered(Struct):
    """Registrations of a plugin. They take effect together, after all were accepted."""

    handlers: list[tuple[str, Handler[Any, Any]]] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    optional: set[str] = field(default_factory=set)
    """Names of tools that are offered only where the configuration of the agent names them."""
    commands: list[Command] = field(default_factory=list)
    methods: list[GatewayMethod] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    services: list[tuple[str, Service]] = field(default_factory=list)
    checks: list[DoctorCheck] = field(default_factory=list)
    routes: list[HttpRoute] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    channels: list[ChannelAdapter] = field(default_factory=list)
    models: list[ProvidedModels] = field(default_factory=list)
    model_apis: list[ModelApi] = field(default_factory=list)
    cli: CliCommand | None = None
    memory: SlotMemory | None = None
    """Backend that claims the slot `memory`."""
    search: SearchProvider | None = None
    embedding: EmbeddingProvider | None = None
    skill_dirs: list[Path] = field(default_factory=list)
    """Folders with skills."""
    skills: list[Skill] = field(default_factory=list)
    """Skills found in `skill_dirs`."""
    init: Callable[[], object] | None = None
    """Called after all parts were accepted and before any is used."""
    shutdown: Callable[[], object] | None = None
    """Called after all parts were removed."""
    close: list[Callable[[], object]] = field(default_factory=list)
    """Called after `shutdown`, such as for closing a database."""
    sha256: str = ""
    """Hash of the plugin's files when they were loaded."""
