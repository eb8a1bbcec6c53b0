"""Registrations of a feature of the gateway, and their sum over all features."""

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
"""Imports what a feature registered; called at the first use."""


class Features(Struct, frozen=True):
    """The sum of what features registered; each part is imported at its first use."""

    methods: dict[str, Need] = field(default_factory=dict)
    """Needs of each method."""
    unnamed: set[str] = field(default_factory=set)
    """Methods that `hello-ok` does not name."""
    handlers: list[LazyPart] = field(default_factory=list)
    """Each gives methods: a sequence of `gateway.method.Method`."""
    events: dict[str, tuple[Need, str]] = field(default_factory=dict)
    """Needs for receiving each event, and a sentence for the reference."""
    checks: list[LazyPart] = field(default_factory=list)
    """Each gives an async function from an `Installation` to checks of `skerry doctor`."""
    commands: list[LazyPart] = field(default_factory=list)
    """Each gives a function from the dependencies of commands to chat commands."""
    registrations: dict[str, Registered] = field(default_factory=dict)
    """Registrations of each feature that are made as those of a plugin."""
    status_checks: list[LazyPart] = field(default_factory=list)
    """Each gives a function from the status of a running gateway to checks of `skerry doctor`."""
    slots: dict[str, LazyPart] = field(default_factory=dict)
    """Each gives the function that opens what holds the slot, such as `memory`."""
    calls: dict[str, LazyPart] = field(default_factory=dict)
    """Each gives how `skerry gateway call` calls a method that works for long."""
    tools: list[LazyPart] = field(default_factory=list)
    """Each gives a function from a `sdk.tool_host.ToolHost` to tools of the model."""
    imports: dict[str, LazyPart] = field(default_factory=dict)
    """Each gives a function from the agents, the default one and the time in milliseconds to a
    `sdk.importing.Importer`."""
    http: dict[str, LazyPart] = field(default_factory=dict)
    """Each gives a function from the gateway's context to an object whose async `serve` answers
    the HTTP requests beneath a path, such as `/hooks`."""
    services: list[tuple[str, LazyPart]] = field(default_factory=list)
    """Each gives a function from the gateway's context to what runs until the gateway stops."""

    def load_methods(self) -> Iterable[Any]:
        """Returns the methods of all features; imports them."""
        return [method for load in self.handlers for method in load()]


class Installation(Struct, frozen=True):
    """Installation that a check examines."""

    state_dir: Path
    environ: Mapping[str, str]
    """Environment, with the variables that the configuration file sets."""
    config: Config | None
    """None where the file cannot be used."""


class FeatureApi(PluginApi):
    """Object passed to the `register(api)` of a feature.

    A feature registers as a plugin does. Besides, as it is a part of this program, it may name a
    part `module:attribute`, relative to its folder: that is imported at its first use, so that a
    start imports `plugin` alone; it may give its methods and events any name and need; and its
    parts get objects of the gateway.
    """

    def __init__(self, feature: Feature, into: Features) -> None:
        super().__init__(feature.name)
        self._feature = feature
        self._into = into
        into.registrations[feature.name] = self._registered

    def methods(self, needs: Mapping[str, Need], handlers: str, *, named: bool = True) -> None:
        """Registers gateway methods: what their callers need, and where the methods are.

        `hello-ok` does not name those with `named=False`: clients are not to build on them.
        """
        duplicates = self._into.methods.keys() & needs.keys()
        if duplicates:
            raise RuntimeError(f"{self._feature.name}: already registered: {sorted(duplicates)}")
        self._into.methods.update(needs)
        if not named:
            self._into.unnamed.update(needs)
        self._into.handlers.append(self._lazy(handlers))

    def commands(self, make: str) -> None:
        """Registers chat commands: a function from `CommandDependencies` of `app` to them."""
        self._into.commands.append(self._lazy(make))

    def tools(self, make: str) -> None:
        """Registers tools: a function from a `sdk.tool_host.ToolHost` to them.

        It is imported and called at the first request to a model.
        """
        self._into.tools.append(self._lazy(make))

    def event(self, name: str, need: Need, text: str) -> None:
        """Registers an event that the gateway may send."""
        self._into.events[name] = (need, text)

    def http_prefix(self, path: str, make: str) -> None:
        """Registers what answers every HTTP request beneath a path, such as `/hooks`.

        The gateway checks `Host` and `Origin` before; the feature decides who may ask. It is
        imported with the first request.
        """
        self._into.http[path] = self._lazy(make)

    def status_check(self, check: str) -> None:
        """Registers a check of `skerry doctor` that reads the status of a running gateway."""
        self._into.status_checks.append(self._lazy(check))

    def check(self, check: str) -> None:
        """Registers a check of `skerry doctor` that looks at the installation itself."""
        self._into.checks.append(self._lazy(check))

    def open_slot(self, slot: str, opens: str) -> None:
        """Claims a slot for good: `memory` is opened with a `sdk.slots.MemoryHost`.

        Raises:
            RuntimeError: another feature has claimed it.
        """
        if slot in self._into.slots:
            raise RuntimeError(f"{self._feature.name}: the slot {slot} is already claimed")
        self._into.slots[slot] = self._lazy(opens)

    def call(self, method: str, function: str) -> None:
        """Registers how `skerry gateway call` calls a method that works for long.

        The function gets the client, the parameters and the seconds of `--timeout`, if given.
        """
        self._into.calls[method] = self._lazy(function)

    def importer(self, make: str) -> None:
        """Registers what `skerry import` uses to bring the part of this feature over."""
        self._into.imports[self._feature.name] = self._lazy(make)

    def service(self, run: str) -> None:
        """Registers what runs from the start of the gateway until it stops."""
        self._into.services.append((self._feature.name, self._lazy(run)))

    def _is_own_api(self, name: str) -> bool:
        return isinstance(self._feature, WireFormat) and name == self._feature.api

    def _lazy(self, path: str) -> LazyPart:
        return cache(lambda: self._feature.load(path))


@cache
def registered(features: tuple[Feature, ...] = FEATURES) -> Features:
    """Returns the registrations of the features; imports `plugin` of each."""
    total = Features()
    for feature in features:
        if feature.registers:
            feature.load("plugin:register")(FeatureApi(feature, total))
    return total


def model_apis() -> ModelApis:
    """Returns the APIs of models that features register; each is imported at its first use."""
    return ModelApis({name: partial(_model_api, each) for name, each in WIRE_FORMATS.items()})


@cache
def _model_api(feature: WireFormat) -> ModelApi:
    """Returns the API of a feature, which registers it as a plugin does."""
    api = FeatureApi(feature, Features())
    feature.load("plugin:register")(api)
    (model_api,) = sealed(api).model_apis
    return model_api
