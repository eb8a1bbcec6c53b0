"""`FeatureApi`, with which features register their parts, and the parts of all features."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from skerry.config.root import Config
from skerry.infra.features import FEATURES, WIRE_FORMATS, Feature, WireFormat
from skerry.policy.access import Need
from skerry.providers.model_apis import ModelApi, ModelApis
from skerry.sdk.api import PluginApi, sealed
from skerry.sdk.registrations import Registered

LazyPart = Callable[[], Any]
"""Imports and returns a registered part of a feature; called at its first use."""


class Features(Struct, frozen=True):
    """Registrations of all features. A `LazyPart` is imported at its first use.

    The docstrings below describe the value that a `LazyPart` returns.
    """

    methods: dict[str, Need] = field(default_factory=dict)
    """Role and scope that the caller of each gateway method needs."""
    unnamed: set[str] = field(default_factory=set)
    """Methods that `hello-ok` does not list."""
    handlers: list[LazyPart] = field(default_factory=list)
    """Sequences of `gateway.method.Method`."""
    events: dict[str, tuple[Need, str]] = field(default_factory=dict)
    """Role and scope for receiving each event, and its sentence in the reference."""
    checks: list[LazyPart] = field(default_factory=list)
    """Async functions from an `Installation` to checks of `skerry doctor`."""
    commands: list[LazyPart] = field(default_factory=list)
    """Functions from `CommandDependencies` to chat commands."""
    registrations: dict[str, Registered] = field(default_factory=dict)
    """By feature name: registrations made with the methods of `PluginApi`."""
    status_checks: list[LazyPart] = field(default_factory=list)
    """Functions from the status of a running gateway to checks of `skerry doctor`."""
    slots: dict[str, LazyPart] = field(default_factory=dict)
    """By slot, such as `memory`: functions that open the part which fills it."""
    calls: dict[str, LazyPart] = field(default_factory=dict)
    """By method: functions with which `skerry gateway call` calls a long-running method."""
    tools: list[LazyPart] = field(default_factory=list)
    """Functions from a `sdk.tool_host.ToolHost` to tools of the model."""
    tool_sources: dict[str, LazyPart] = field(default_factory=dict)
    """By feature name: functions from a `sdk.tool_host.ToolHost` to a `ports.tool.ToolSource`."""
    imports: dict[str, LazyPart] = field(default_factory=dict)
    """By feature name: functions from the agents, the default agent and the time in milliseconds to
    a `sdk.importing.Importer`."""
    http: dict[str, LazyPart] = field(default_factory=dict)
    """By path prefix, such as `/hooks`: functions from the gateway's context to an object whose
    async `serve` answers the HTTP requests below it."""
    node_hello: list[LazyPart] = field(default_factory=list)
    """Functions from the gateway's context, a connected node and the version of its protocol to
    further fields of its `hello-ok`."""
    services: list[tuple[str, LazyPart]] = field(default_factory=list)
    """Functions from the gateway's context to an async function that runs until the gateway
    stops, each with the name of its feature."""

    def load_methods(self) -> Iterable[Any]:
        """Imports and returns the gateway methods of all features."""
        return [method for load in self.handlers for method in load()]


class Installation(Struct, frozen=True):
    """Installation that a check of `skerry doctor` examines."""

    state_dir: Path
    environ: Mapping[str, str]
    """Environment, with the variables that the configuration file sets."""
    config: Config | None
    """None when the configuration file is invalid."""


class FeatureApi(PluginApi):
    """API with which the `register(api)` of a feature registers its parts.

    It extends the API of plugins. A part is named `module:attribute`, relative to the folder of the
    feature, and imported at its first use, so that a start imports `plugin` only. Methods and
    events may have any name and need, and parts get objects of the gateway.
    """

    def __init__(self, feature: Feature, into: Features) -> None:
        super().__init__(feature.name)
        self._feature = feature
        self._into = into
        into.registrations[feature.name] = self._registered

    def methods(self, needs: Mapping[str, Need], handlers: str, *, named: bool = True) -> None:
        """Registers gateway methods.

        Args:
            needs: Role and scope that a caller needs, by method.
            handlers: `module:attribute` of a sequence of `gateway.method.Method`.
            named: False keeps the methods out of `hello-ok`, so that clients do not rely on them.

        Raises:
            RuntimeError: a method is registered already.
        """
        duplicates = self._into.methods.keys() & needs.keys()
        if duplicates:
            raise RuntimeError(f"{self._feature.name}: already registered: {sorted(duplicates)}")
        self._into.methods.update(needs)
        if not named:
            self._into.unnamed.update(needs)
        self._into.handlers.append(self._lazy(handlers))

    def commands(self, make: str) -> None:
        """Registers a function from `app`'s `CommandDependencies` to chat commands."""
        self._into.commands.append(self._lazy(make))

    def tools(self, make: str) -> None:
        """Registers a function from a `sdk.tool_host.ToolHost` to tools of the model.

        It is imported and called at the first request to a model.
        """
        self._into.tools.append(self._lazy(make))

    def tool_source(self, make: str) -> None:
        """Registers a function from a `sdk.tool_host.ToolHost` to a `ports.tool.ToolSource`.

        It is imported and called at the first request to a model.
        """
        self._into.tool_sources[self._feature.name] = self._lazy(make)

    def event(self, name: str, need: Need, text: str) -> None:
        """Registers an event that the gateway sends; `text` is its sentence in the reference."""
        self._into.events[name] = (need, text)

    def http_prefix(self, path: str, make: str) -> None:
        """Registers the handler of all HTTP requests below a path, such as `/hooks`.

        The gateway checks `Host` and `Origin`; the feature authenticates the caller. It is imported
        at the first request.
        """
        self._into.http[path] = self._lazy(make)

    def node_hello(self, fields: str) -> None:
        """Registers a function that returns further fields of `hello-ok` for a node.

        It gets the gateway's context, the connected node and the version of its protocol.
        """
        self._into.node_hello.append(self._lazy(fields))

    def status_check(self, check: str) -> None:
        """Registers a check of `skerry doctor` that reads the status of a running gateway."""
        self._into.status_checks.append(self._lazy(check))

    def check(self, check: str) -> None:
        """Registers a check of `skerry doctor` that examines the installation."""
        self._into.checks.append(self._lazy(check))

    def open_slot(self, slot: str, opens: str) -> None:
        """Claims a slot. `opens` gets the host of the slot, such as a `sdk.slots.MemoryHost`.

        Raises:
            RuntimeError: another feature has claimed the slot.
        """
        if slot in self._into.slots:
            raise RuntimeError(f"{self._feature.name}: the slot {slot} is already claimed")
        self._into.slots[slot] = self._lazy(opens)

    def call(self, method: str, function: str) -> None:
        """Registers the function with which `skerry gateway call` calls a long-running method.

        It gets the client, the parameters, and the seconds of `--timeout` or None.
        """
        self._into.calls[method] = self._lazy(function)

    def importer(self, make: str) -> None:
        """Registers the function that makes the `sdk.importing.Importer` of this feature."""
        self._into.imports[self._feature.name] = self._lazy(make)

    def service(self, run: str) -> None:
        """Registers a function that runs from the start of the gateway until it stops."""
        self._into.services.append((self._feature.name, self._lazy(run)))

    def _is_own_api(self, name: str) -> bool:
        return isinstance(self._feature, WireFormat) and name == self._feature.api

    def _lazy(self, path: str) -> LazyPart:
        return cache(lambda: self._feature.load(path))


@cache
def registered(features: tuple[Feature, ...] = FEATURES) -> Features:
    """Returns the registrations of the features; imports module `plugin` of each."""
    total = Features()
    for feature in features:
        if feature.registers:
            feature.load("plugin:register")(FeatureApi(feature, total))
    return total


def bundled_skills() -> tuple[Path, ...]:
    """Returns the directories of skills that features registered."""
    parts = registered().registrations.values()
    return tuple(folder for feature_parts in parts for folder in feature_parts.skill_dirs)


def model_apis() -> ModelApis:
    """Returns the wire formats of the features; each is imported at its first use."""
    return ModelApis({name: partial(_model_api, each) for name, each in WIRE_FORMATS.items()})


@cache
def _model_api(feature: WireFormat) -> ModelApi:
    """Returns the wire format that a feature registers."""
    api = FeatureApi(feature, Features())
    feature.load("plugin:register")(api)
    (model_api,) = sealed(api).model_apis
    return model_api
