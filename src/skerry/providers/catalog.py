"""All models that can be used, and which one is."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

import anyio
import httpx2

from skerry.config.root import Config
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import ModelInfo, ModelProvider, ModelState, ModelStatus
from skerry.ports.tries import OneTry, Tries, Wanted
from skerry.providers.adapters import adapter
from skerry.providers.embedded import EmbeddedProvider, EmbeddedSettings
from skerry.providers.facts import Facts
from skerry.providers.known import LOCAL, LocalServer
from skerry.providers.machine import Machine
from skerry.providers.names import Names
from skerry.providers.packaged import EMBEDDED, embedded_info
from skerry.providers.probe import LocalModel, probe
from skerry.providers.resolve import Resolver, Target, local
from skerry.providers.retry import RetryingProvider
from skerry.providers.vanished import WatchedProvider

if TYPE_CHECKING:
    from skerry.providers.exchange import Endpoint

if TYPE_CHECKING:
    from skerry.providers.exchange import Endpoint

_FRESH: Final = 30.0  # seconds for which the answers of the local servers hold
_REMEDY: Final = (
    "Enter a provider's key on the page, or set one in the environment (such as OPENAI_API_KEY), or"
    " start Ollama, LM Studio or llama.cpp's server."
)

Choice = tuple[ModelProvider, ModelInfo]


class Catalog(anyio.AsyncContextManagerMixin):
    """Chooses among hosted providers, local servers and the embedded model.

    Without a configured model it is the first usable of: a provider's key in the environment, a
    local server that answers, `models.embedded.file`, the packaged demonstration model. Use as
    `async with Catalog(...)`; leaving the block ends the embedded model's process.
    """

    def __init__(
        self,
        config: Config,
        http: httpx2.AsyncClient,
        environ: Mapping[str, str],
        *,
        servers: Sequence[LocalServer] = LOCAL,
        machine: Machine | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self._environ = environ
        self._servers = servers
        self._monotonic = monotonic
        self._machine = machine or Machine.here()
        self._probing = anyio.Lock()
        self._embedded = EmbeddedProvider(http, environ, self._machine)
        self._embedded_retrying = RetryingProvider(self._embedded)
        self.reconfigure(config)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._embedded:
            yield self

    def reconfigure(self, config: Config) -> None:
        """Use `config` from the next choice on."""
        self._config = config
        self._names = Names(config.agents)
        facts = Facts(config.state_dir)
        self._resolver = Resolver(config.models, self._environ, self._servers, facts)
        self._providers: dict[Endpoint, ModelProvider] = {}
        self._choices: dict[str, Choice] = {}
        self._probed: tuple[float, list[LocalModel]] | None = None

    async def choose(self, ref: str | None) -> Choice:
        """Return the model that `ref` names, or the configured one, or the first usable.

        A named model costs no look at the network; local servers are asked every 30 s at most.

        Raises:
            ModelUnavailableError: with what to do.
        """
        wanted = self._names.reference(ref or self._config.agents.defaults.model.primary or "")
        if wanted:
            self._names.check(wanted)
            if wanted.partition("/")[0] == EMBEDDED:
                return self._embedded_choice()
            return self._named(wanted)
        return await self._first()

    def tries(self, wanted: Wanted) -> Tries:
        """Return the candidates of a call, in the order in which they are asked."""
        return OneTry(lambda: self.choose(wanted.reference))

    async def _first(self) -> Choice:
        for target in self._resolver.with_key():
            return self._choice(target)
        for found in await self._local_models():
            return self._choice(local(found.server, found.id))
        if not self._resolver.looks_around:
            for target in self._resolver.configured():
                return self._choice(target)
        return self._embedded_choice()

    async def listing(self) -> list[ModelInfo]:
        """Return the models that can be used now, the one in use first."""
        infos: list[ModelInfo] = []
        status = await self.status()
        if status.model is not None:
            infos.append(status.model)
        infos += [target.info for target in self._resolver.with_key()]
        infos += [target.info for target in self._resolver.configured()]
        infos += [local(one.server, one.id).info for one in await self._local_models()]
        with suppress(ModelUnavailableError):  # told by `status` when nothing else can be used
            infos.append(self._embedded_choice()[1])
        return list({info.ref: info for info in infos}.values())

    async def known(self) -> list[ModelInfo]:
        """Return the models that can be used now, then all others of the catalogue."""
        infos = {info.ref: info for info in await self.listing()}
        for info in self._resolver.catalogued():
            infos.setdefault(info.ref, info)
        return list(infos.values())

    async def status(self) -> ModelStatus:
        """Return which model answers now, without starting one."""
        try:
            _, info = await self.choose(None)
        except ModelUnavailableError as error:
            return ModelStatus(ModelState.UNAVAILABLE, None, str(error), error.remedy)
        starting = info.provider == EMBEDDED and self._embedded.starting
        return ModelStatus(ModelState.STARTING if starting else ModelState.READY, info, info.note)

    def _named(self, ref: str) -> Choice:
        choice = self._choices.get(ref)
        if choice is None:
            choice = self._choices[ref] = self._choice(self._resolver.named(ref))
        return choice

    def _choice(self, target: Target) -> Choice:
        provider = self._providers.get(target.endpoint)
        if provider is None:
            provider = RetryingProvider(adapter(self._http, target.endpoint))
            if target.local:
                provider = WatchedProvider(provider, target.endpoint.name, self._forget)
            self._providers[target.endpoint] = provider
        return provider, target.info

    def _embedded_choice(self) -> Choice:
        config = self._config.models.embedded
        packaged = config.file is None
        file = config.file.expanduser() if config.file else self._machine.packaged
        if file is None:
            raise ModelUnavailableError(
                "No model can be used: no provider's key is set, no local model server answers, and"
                " the demonstration model is not installed.",
                _REMEDY,
            )
        self._embedded.use(EmbeddedSettings(file, config.threads, config.context_window))
        info = embedded_info(file, config.context_window, packaged=packaged)
        return self._embedded_retrying, info

    def _forget(self) -> None:
        """Ask the local servers again before the next choice."""
        self._probed = None

    async def _local_models(self) -> list[LocalModel]:
        if not self._resolver.looks_around:
            return []
        async with self._probing:
            now = self._monotonic()
            if self._probed is None or now - self._probed[0] > _FRESH:
                self._probed = now, await probe(self._http, self._servers)
            return self._probed[1]
