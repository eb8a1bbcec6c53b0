"""The catalogue: all usable models, and the choice among them."""

import time
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

import anyio
from msgspec import Struct

from skerry.auth.cooldowns import Cooldowns
from skerry.auth.credentials import Credentials
from skerry.auth.profiles import Profile, split_reference
from skerry.config.root import Config
from skerry.infra.clock import Clock, SystemClock
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelError, ModelUnavailableError
from skerry.ports.model import (
    ModelInfo,
    ModelProvider,
    ModelSetup,
    ModelState,
    ModelStatus,
    Offering,
    RestingProfile,
)
from skerry.ports.model_candidates import CallTarget, Candidates
from skerry.providers.builtin_providers import LOCAL, LocalServer, known_provider
from skerry.providers.candidates import CatalogTries, Choice, CredentialProbes, ModelOption
from skerry.providers.embedded_model import EMBEDDED, EmbeddedHost, EmbeddedModel, ModelParts
from skerry.providers.model_apis import ModelApi
from skerry.providers.model_catalog import Facts
from skerry.providers.model_health import ModelFailures, SilentAddresses
from skerry.providers.names import ModelNames
from skerry.providers.offering import ModelLister
from skerry.providers.pins import PinnedProvider, Pins, PinState
from skerry.providers.probe import LocalServers
from skerry.providers.resolve import ModelTarget, Resolver, local, with_secret
from skerry.providers.retry import HASTY, RetryingProvider
from skerry.providers.watchdog import WatchedProvider

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from skerry.providers.offered import Answers
    from skerry.providers.streaming_call import Endpoint

_MAX_PROVIDERS: Final = 256
"""Limit of cached providers, of which each renewed token adds one; beyond it all are dropped."""


class _Route(Struct, frozen=True):
    """The model and credentials that a name refers to."""

    ref: str
    """`provider/model`."""
    provider: str
    """Provider whose credentials are used; `google` for `gemini`."""
    pin: str = ""
    """Profile in the name; empty for none."""

    @classmethod
    def to(cls, ref: str, pin: str = "") -> Self:
        """Returns the route to a model."""
        provider = ref.partition("/")[0]
        hosted = known_provider(provider)
        return cls(ref, hosted.id if hosted else provider, pin)


class Catalog(anyio.AsyncContextManagerMixin):
    """Chooses among hosted providers, local servers and the embedded model.

    Without a configured model it uses the first of: a provider with a key in the environment, a
    local server that answers and that the owner has confirmed, `models.embedded.file`, the packaged
    demonstration model. Use as `async with Catalog(...)`; the end of the block ends the process of
    the embedded model.
    """

    def __init__(
        self,
        config: Config,
        http: HttpClient,
        environ: Mapping[str, str],
        parts: ModelParts,
        *,
        servers: Sequence[LocalServer] = LOCAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self.parts = parts
        """Wire formats and the embedded model."""
        self._environ = environ
        self._servers = servers
        self._monotonic = monotonic
        self._embedded: EmbeddedModel | None = None
        self._tasks: TaskGroup
        self.probes = CredentialProbes()
        """Probes of credentials, of all runs."""
        self.failures = ModelFailures(SystemClock().now_ms)
        """Last failures of models, of all runs."""
        self.silences = SilentAddresses(monotonic)
        """Addresses that did not answer, of all runs."""
        self.credentials = Credentials(config, environ, http, SystemClock())
        """Credentials of every agent."""
        self._model_lists: Answers = {}
        self.added: dict[str, Choice] = {}
        """Models of plugins, by `<plugin>/<id>`."""
        self._configure(config)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as self._tasks:
            yield self
            self._tasks.cancel_scope.cancel()

    def resume(self, cooldowns: Cooldowns, clock: Clock) -> None:
        """Uses the stored cooldowns of the last process, and this clock."""
        self.credentials = Credentials(self._config, self._environ, self._http, clock, cooldowns)

    def reconfigure(self, config: Config) -> None:
        """Replaces the configuration; effective at the next choice."""
        self.credentials.reconfigure(config)
        self.failures.clear()
        self._configure(config)

    def _configure(self, config: Config) -> None:
        self._config = config
        self._names = ModelNames(config.agents, config.models)
        self._pins = Pins(config.state_dir)
        facts = Facts(config.state_dir)
        self._resolver = Resolver(config.models, self._environ, self._servers, facts)
        self._providers: dict[tuple[Endpoint, bool], ModelProvider] = {}
        self._targets: dict[str, ModelTarget] = {}
        self._routes: dict[str, _Route] = {}
        servers = self._servers if self._resolver.looks_around else ()
        self._local = LocalServers(self._http, servers, self._pins, self._monotonic)

    def add_api(self, api: ModelApi) -> None:
        """Adds the wire format of a plugin; effective at the next choice."""
        self.parts.apis.add(api)
        self._providers.clear()

    def remove_api(self, api: ModelApi) -> None:
        """Removes the wire format of a plugin; effective at the next choice."""
        self.parts.apis.remove(api.name)
        self._providers.clear()

    async def choose(self, ref: str | None) -> Choice:
        """Returns the model that `ref` names, or the configured one, or the first usable one.

        A named model needs no network access; local servers are probed at most every 30 s.

        Raises:
            ModelUnavailableError: the model cannot be used; it has a remedy.
        """
        named = ref or self._config.agents.defaults.model.primary
        if not named:
            return await self._first()
        route = self._route(named)
        if route.ref in self.added:
            return self.added[route.ref]
        if route.provider == EMBEDDED:
            return self._embedded_choice()
        keyless = route.provider in self._profiled()
        return self._choice(self._target(route.ref, keyless=keyless))

    def tries(self, need: CallTarget) -> Candidates:
        """Returns the candidates for the calls of one run, in the order of the tries."""
        return CatalogTries(self, need)

    def chain(self, need: CallTarget) -> list[str | None]:
        """Returns the models to try: the requested one, the fallbacks, the agent's primary model.

        None means the first usable model, which is used where no model is configured.
        """
        primary = self._config.primary_model(need.agent)
        fallbacks = need.fallbacks
        if fallbacks is None:
            fallbacks = self._config.fallback_models(need.agent)
        first = need.reference or primary
        if not fallbacks and first == primary:
            return [first]
        by_reference = {
            self._reference(name): name for name in (primary, *reversed(fallbacks), first)
        }
        rest = [name for name in reversed(list(by_reference.values())) if name and name != first]
        if primary is None and not self._may_be_used(first, need):
            return [first, *rest, None]
        return [first, *rest]

    def _may_be_used(self, reference: str | None, need: CallTarget) -> bool:
        """Returns True when a named model has candidates; their calls may still fail."""
        try:
            return bool(reference and self._entries_of(self._route(reference), need))
        except ModelError:
            return False

    def _reference(self, name: str | None) -> str | None:
        return self._names.reference(split_reference(name)[0]) if name else None

    async def entries(self, reference: str | None, need: CallTarget) -> list[ModelOption]:
        """Returns the options for one model: its profiles in order, then a key without a profile.

        Raises:
            ModelError: the model is unknown or not allowed, or there is no credential.
        """
        if reference:
            return self._entries_of(self._route(reference), need)
        first = await self._first_target(self.credentials.providers(need.agent))
        if first is None:
            return [ModelOption(EMBEDDED, embedded=self._embedded_choice())]
        if first.server is not None:
            return [ModelOption(first.info.ref, first)]
        return self._entries_of(_Route.to(first.info.ref), need)

    def _route(self, reference: str) -> _Route:
        """Returns the route of a name, computed once for each configuration.

        Raises:
            ModelUnavailableError: the model is not allowed.
        """
        route = self._routes.get(reference)
        if route is None:
            name, pin = split_reference(reference)
            ref = self._names.reference(name)
            self._names.check(ref)
            route = self._routes[reference] = _Route.to(ref, pin)
        return route

    def _entries_of(self, route: _Route, need: CallTarget) -> list[ModelOption]:
        ref, pin = route.ref, route.pin
        if ref in self.added:
            return [ModelOption(ref, embedded=self.added[ref])]
        if route.provider == EMBEDDED:
            return [ModelOption(EMBEDDED, embedded=self._embedded_choice())]
        profiles = self.credentials.queue(need.agent, route.provider, ref, need.session_id, pin)
        target = self._target(ref, keyless=bool(profiles))
        entries = [ModelOption(ref, target, profile) for profile in profiles]
        if not pin and (target.endpoint.credentials or not entries):
            entries.append(ModelOption(ref, target))
        return entries

    def _target(self, ref: str, *, keyless: bool) -> ModelTarget:
        target = self._targets.get(ref)
        if target is None:
            target = self._resolver.named(ref, keyless=keyless)
            if not keyless:
                self._targets[ref] = target
        return target

    async def open(self, entry: ModelOption, *, patient: bool) -> Choice:
        """Opens the provider of the entry; not `patient`, retries are short.

        Raises:
            ModelError: its credential is unavailable, or is for another address.
        """
        target = await self._with_secret(entry)
        if target is None:
            return entry.embedded or self._embedded_choice()
        return self._choice(target, patient=patient)

    def presented(self, ref: str, profile: Profile, secret: str) -> Choice:
        """Returns a model with a secret that is not stored yet; its retries are short.

        Raises:
            ModelError: the model is unknown, or the profile is for another address.
        """
        target = with_secret(self._target(ref, keyless=True), profile, secret, self.parts.apis)
        return self._choice(target, patient=False)

    async def _first(self) -> Choice:
        target = await self._first_target(self._profiled())
        return self._embedded_choice() if target is None else self._choice(target)

    async def _first_target(self, profiled: Container[str]) -> ModelTarget | None:
        """Returns the first usable model; None means the embedded one."""
        for target in self._resolver.with_key(profiled):
            return target
        for model in await self._local.confirmed():
            return local(model.server, model.id)
        if not self._resolver.looks_around:
            for target in self._resolver.configured():
                return target
        return None

    def _profiled(self) -> set[str]:
        """Returns the providers for which the default agent has a profile."""
        return self.credentials.providers(self._config.agents.default_id)

    async def listing(self) -> list[ModelInfo]:
        """Returns the models that can be used now, the present one first."""
        infos: list[ModelInfo] = []
        status = await self.status()
        if status.model is not None:
            infos.append(status.model)
        infos += [target.info for target in self._resolver.with_key(self._profiled())]
        infos += [target.info for target in self._resolver.configured()]
        infos += [info for _, info in self.added.values()]
        infos += [local(model.server, model.id).info for model in await self._local.confirmed()]
        with suppress(ModelUnavailableError):  # `status` reports it when no other model is usable
            infos.append(self._embedded_choice()[1])
        return list({info.ref: info for info in infos}.values())

    async def offered(self, setup: ModelSetup | None = None) -> Offering:
        """Requests the models of all usable providers, or of the provider in `setup`."""
        lister = ModelLister(
            self._http, self.parts.apis, self._resolver, self._names, self._model_lists
        )
        if setup is not None:
            return await lister.of_setup(setup, await self._endpoint(setup.provider))
        names = {target.info.provider: "" for target in self._resolver.with_key(self._profiled())}
        names |= dict.fromkeys(self._config.models.providers, "")
        endpoints = {name: await self._endpoint(name) for name in names}
        return await lister.all(endpoints, await self.listing())

    async def _endpoint(self, provider: str) -> "Endpoint | None":
        """Returns the endpoint of a provider with its credential; None without one."""
        need = CallTarget(agent=self._config.agents.default_id)
        with suppress(ModelError):
            target = await self._with_secret(self._entries_of(_Route.to(f"{provider}/-"), need)[0])
            return target.endpoint if target and not target.server else None
        return None

    async def _with_secret(self, entry: ModelOption) -> ModelTarget | None:
        """Returns the target, with the secret of its profile."""
        if entry.target is None or entry.profile is None:
            return entry.target
        secret = await self.credentials.secret(entry.profile)
        return with_secret(entry.target, entry.profile, secret, self.parts.apis)

    async def all_models(self) -> list[ModelInfo]:
        """Returns the models that can be used now, then all others of the catalogue."""
        infos = {info.ref: info for info in await self.listing()}
        rest = {info.ref: info for info in self._resolver.catalogued()}
        return list((infos | rest | infos).values())

    async def status(self) -> ModelStatus:
        """Returns the state of the present model, without starting one."""
        credentials = self.credentials
        rests = credentials.cooldowns.rows(credentials.clock.now_ms())
        resting = tuple(
            RestingProfile(rest.profile, rest.model, rest.reason, rest.until) for rest in rests
        )
        try:
            _, info = await self.choose(None)
        except ModelUnavailableError as error:
            state = ModelState.UNAVAILABLE
            offers = await self._local.offers()
            return ModelStatus(state, None, str(error), error.remedy, resting, offers)
        starting = self._embedded is not None and self._embedded.starting
        state = ModelState.STARTING if starting else ModelState.READY
        is_looked_for = info.provider == EMBEDDED or self._local.is_asked
        offers = await self._local.offers() if is_looked_for else ()
        failure = self.failures.of(info.ref)
        return ModelStatus(state, info, info.note, "", resting, offers, failure)

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        """Stores or deletes the confirmation of a local server. Raises as `Pins.confirm`."""
        chosen = next((candidate for candidate in self._servers if candidate.id == server), None)
        if chosen is None:
            ids = ", ".join(candidate.id for candidate in self._servers)
            raise ModelUnavailableError(
                f"Unknown local server {server!r}.",
                f"Known servers: {ids}. Add any other to models.providers with its baseUrl.",
            )
        if is_trusted:
            self._pins.confirm(chosen)
        else:
            self._pins.withdraw(chosen)
        self._forget()
        return await self.status()

    def _choice(self, target: ModelTarget, *, patient: bool = True) -> Choice:
        server = target.server
        if server is not None and self._pins.verdict(server) is not PinState.ABSENT:
            self._pins.check(server)
        provider = self._providers.get((target.endpoint, patient))
        if provider is None:
            if len(self._providers) >= _MAX_PROVIDERS:
                self._providers.clear()
            policy = None if patient else HASTY
            plain = self.parts.apis.open(self._http, target.endpoint)
            if target.server is not None:
                plain = PinnedProvider(plain, self._pins, target.server)
            provider = RetryingProvider(plain, policy)
            if target.server is not None:
                provider = WatchedProvider(provider, target.endpoint.name, self._forget)
            self._providers[target.endpoint, patient] = provider
        return provider, target.info

    def _embedded_choice(self) -> Choice:
        if self._embedded is None:
            host = EmbeddedHost(self._http, self._environ, self.parts.apis, lambda: self._tasks)
            self._embedded = self.parts.embedded(host)
        return self._embedded.choose(self._config.models.embedded)

    def _forget(self) -> None:
        """Probes the local servers again before the next choice."""
        self._local.forget()
