"""Registrations of a feature of the gateway, and their sum over all features."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from skerry.config.root import Config
from skerry.infra.features import FEATURES, Feature
from skerry.policy.access import Need

Later = Callable[[], Any]
"""Imports what a feature registered; called at the first use."""


class Features(Struct, frozen=True):
    """The sum of what features registered; each part is imported at its first use."""

    methods: dict[str, Need] = field(default_factory=dict)
    """Needs of each method."""
    handlers: list[Later] = field(default_factory=list)
    """Each gives methods: a sequence of `gateway.method.Method`."""
    events: dict[str, tuple[Need, str]] = field(default_factory=dict)
    """Needs for receiving each event, and a sentence for the reference."""
    checks: list[Later] = field(default_factory=list)
    """Each gives an async function from an `Installation` to checks of `skerry doctor`."""
    status_checks: list[Later] = field(default_factory=list)
    """Each gives a function from the status of a running gateway to checks of `skerry doctor`."""
    services: list[tuple[str, Later]] = field(default_factory=list)
    """Each gives a function from the gateway's context to what runs until the gateway stops."""

    def added(self) -> Iterable[Any]:
        """Returns the methods of all features; imports them."""
        return [one for load in self.handlers for one in load()]


class Installation(Struct, frozen=True):
    """Installation that a check examines."""

    state_dir: Path
    environ: Mapping[str, str]
    config: Config | None
    """None where the file cannot be used."""


class FeatureApi:
    """Object passed to the `register(api)` of a feature.

    A part is named `module:attribute`, relative to the folder of the feature.
    """

    def __init__(self, feature: Feature, into: Features) -> None:
        self._feature = feature
        self._into = into

    def methods(self, needs: Mapping[str, Need], handlers: str) -> None:
        """Registers gateway methods: what their callers need, and where the methods are."""
        taken = self._into.methods.keys() & needs.keys()
        if taken:
            raise RuntimeError(f"{self._feature.name}: already registered: {sorted(taken)}")
        self._into.methods.update(needs)
        self._into.handlers.append(self._later(handlers))

    def event(self, name: str, need: Need, text: str) -> None:
        """Registers an event that the gateway may send."""
        self._into.events[name] = (need, text)

    def status_check(self, check: str) -> None:
        """Registers a check of `skerry doctor` that reads the status of a running gateway."""
        self._into.status_checks.append(self._later(check))

    def check(self, check: str) -> None:
        """Registers a check of `skerry doctor` that looks at the installation itself."""
        self._into.checks.append(self._later(check))

    def service(self, run: str) -> None:
        """Registers what runs from the start of the gateway until it stops."""
        self._into.services.append((self._feature.name, self._later(run)))

    def _later(self, path: str) -> Later:
        return cache(lambda: self._feature.load(path))


@cache
def registered(features: tuple[Feature, ...] = FEATURES) -> Features:
    """Returns the registrations of the features; imports `plugin` of each."""
    found = Features()
    for feature in features:
        if feature.registers:
            feature.load("plugin:register")(FeatureApi(feature, found))
    return found
