"""Resolution of `provider/model` to an endpoint and the facts of the model (pure)."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.auth.profiles import CredentialKind, Profile
from skerry.config.models import Mode, ModelConfig, ModelsConfig, ProviderConfig
from skerry.infra.spelling import spelt_like
from skerry.model.errors import ModelAuthError, ModelUnavailableError
from skerry.ports.model import ModelCost, ModelInfo
from skerry.providers.builtin_providers import (
    HOSTED_PROVIDERS,
    KnownProvider,
    LocalServer,
    known_provider,
)
from skerry.providers.model_apis import USUAL, ModelApis
from skerry.providers.model_catalog import Fact, Facts
from skerry.providers.streaming_call import Endpoint

_LOCAL_SILENCE: Final = 600.0  # a local server may load a large model before its first byte
_LOCAL_WINDOW: Final = 32_768  # servers do not report it; most have less than hosted models
_WINDOW: Final = 200_000
_ALIKE: Final = 0.75  # of 1: a misspelt name, not another one that shares some letters
_ANSWER: Final = 8192
_LONG_ANSWER: Final = 32_000
"""Default limit of an answer, in tokens, for models that could write more: an unintended answer of
128,000 tokens is expensive."""


class ModelTarget(Struct, frozen=True):
    """A model and its endpoint."""

    endpoint: Endpoint
    info: ModelInfo
    server: LocalServer | None = None
    """The detected server on this machine, which may stop at any time; None for other models."""


class Resolver(Struct, frozen=True):
    """Resolves names by the configuration and the environment, without network access."""

    models: ModelsConfig
    environ: Mapping[str, str]
    servers: Sequence[LocalServer]
    facts: Facts

    @property
    def looks_around(self) -> bool:
        """Returns True when providers and servers outside of the file are used too."""
        return self.models.mode is Mode.MERGE

    def with_key(self, profiled: Container[str] = ()) -> Iterator[ModelTarget]:
        """Yields the hosted providers with a key in the environment or with an auth profile.

        `profiled` has the ids of the latter. A provider that the file describes has the address of
        the file: its key is sent nowhere else.
        """
        for hosted in HOSTED_PROVIDERS if self.looks_around else ():
            if self._key(hosted) or hosted.id in profiled:
                yield self.named(hosted.id, keyless=True)

    def configured(self) -> Iterator[ModelTarget]:
        """Yields the models of `models.providers`, in the order of the file."""
        for name, provider in self.models.providers.items():
            for model in provider.models:
                yield self._configured(name, provider, model.id)

    def catalogued(self) -> Iterator[ModelInfo]:
        """Yields every model of the catalogue with a known provider, usable or not."""
        for hosted in HOSTED_PROVIDERS if self.looks_around else ():
            note = "" if self._key(hosted) else f"Needs {hosted.variables[0]}."
            for model in self.facts.models(hosted.id):
                target = self._hosted(hosted, hosted.id, model, "")
                yield replace(target.info, note=note)

    def named(self, ref: str, *, keyless: bool = False) -> ModelTarget:
        """Returns the model `provider/model`; `provider` alone means its first or default model.

        With `keyless` no key is needed in the file or the environment.

        Raises:
            ModelUnavailableError: the name is unknown, or its key is missing.
        """
        name, _, model = ref.partition("/")
        provider = self.models.providers.get(name)
        if provider is not None:
            hosted = known_provider(name)
            listed = provider.models[0].id if provider.models else ""
            model = model or listed or (hosted.model if hosted else "")
            if model:
                return self._configured(name, provider, model)
        elif self.looks_around:
            target = self._unconfigured(name, model, keyless=keyless)
            if target is not None:
                return target
        raise self._unknown_model(ref, name)

    def _unconfigured(self, name: str, model: str, *, keyless: bool) -> ModelTarget | None:
        """Returns the model of a provider that the file does not name."""
        hosted = known_provider(name)
        if hosted is not None:
            key = self._key(hosted)
            if not key and not keyless:
                raise ModelUnavailableError(
                    f"No key is set for {hosted.name}.",
                    f"Set {hosted.variables[0]} in the environment, or enter the key on the page,"
                    f" or with skerry auth add {hosted.id}.",
                )
            return self._hosted(hosted, name, model or hosted.model, key)
        server = next(
            (local_server for local_server in self.servers if local_server.id == name), None
        )
        return local(server, model) if server is not None and model else None

    def _key(self, hosted: KnownProvider) -> str:
        values = (self.environ.get(variable, "").strip() for variable in hosted.variables)
        return _sendable(hosted.name, next(filter(None, values), ""))

    def _configured(self, name: str, provider: ProviderConfig, model: str) -> ModelTarget:
        hosted = known_provider(name)
        title = hosted.name if hosted else name
        key = provider.api_key.get_secret_value().strip() if provider.api_key else ""
        key = _sendable(title, key) or (self._key(hosted) if hosted else "")
        entry = next(
            (listed for listed in provider.models if listed.id == model), ModelConfig(id=model)
        )
        headers = {name.lower(): value for name, value in provider.headers.items()}
        headers |= {name.lower(): value for name, value in entry.headers.items()}
        field = hosted.output_limit if hosted else "max_tokens"
        endpoint = Endpoint(
            title,
            str(provider.base_url),
            key or None,
            field if "max_tokens" in entry.model_fields_set else None,
            api=entry.api or _api(provider, hosted),
            silence=provider.timeout_seconds,
            first_byte=provider.first_byte_seconds,
            headers=tuple(
                (name, _sendable(title, value.get_secret_value().strip()))
                for name, value in headers.items()
            ),
        )
        fact = self.facts.of(hosted.id if hosted else name, model, endpoint.base_url)
        window = fact.context_window or (hosted.context_window if hosted else _WINDOW)
        info = _info(name, entry, fact, window, endpoint.api)
        return ModelTarget(endpoint, info)

    def _hosted(self, hosted: KnownProvider, name: str, model: str, key: str) -> ModelTarget:
        fact = self.facts.of(hosted.id, model, hosted.base_url)
        window = fact.context_window or hosted.context_window
        endpoint = Endpoint(hosted.name, hosted.base_url, key or None, api=hosted.api)
        return ModelTarget(endpoint, _info(name, ModelConfig(id=model), fact, window, hosted.api))

    def _unknown_model(self, ref: str, name: str) -> ModelUnavailableError:
        names = dict.fromkeys(self.models.providers)
        names |= dict.fromkeys(
            [*(hosted.id for hosted in HOSTED_PROVIDERS), *(server.id for server in self.servers)]
        )
        near = spelt_like(name, names, cutoff=_ALIKE)
        hint = f" Did you mean {near[0]}/...?" if near and near[0] != name else ""
        return ModelUnavailableError(
            f"Unknown model {ref!r}; a model is named provider/model.{hint}",
            f"Known providers: {', '.join(names)}, embedded. Add others to models.providers.",
        )


def _sendable(provider: str, key: str) -> str:
    """Returns the key if it can stand in a header; what was copied badly often cannot."""
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailableError(
            f"The key for {provider} has characters that no key has.", "Copy and enter it again."
        )
    return key


def with_secret(target: ModelTarget, profile: Profile, secret: str, apis: ModelApis) -> ModelTarget:
    """Returns the target with the secret of a profile as its only key.

    Raises:
        ModelAuthError: the profile was entered for another address; its secret is not sent there.
        ModelUnavailableError: the wire format is not registered.
    """
    endpoint, hosted = target.endpoint, known_provider(profile.provider)
    address = profile.base_url or (hosted.base_url if hosted else "")
    if endpoint.base_url.rstrip("/") != address.rstrip("/"):
        error = ModelAuthError(
            f"{profile.id} is not for the address {endpoint.base_url}"
            + (f" but for {address}." if address else ", and names none.")
        )
        error.remedy = f"Enter it for this one: skerry auth add {profile.provider}."
        raise error
    if profile.kind is CredentialKind.API_KEY or apis.get(endpoint.api).sends_bearer:
        return replace(target, endpoint=changed(endpoint, api_key=secret))
    headers = tuple(header for header in endpoint.headers if header[0] != "authorization")
    bearer = ("authorization", f"Bearer {secret}")  # RFC 6750; these formats have a key header
    return replace(target, endpoint=changed(endpoint, api_key=None, headers=(*headers, bearer)))


def local(server: LocalServer, model: str) -> ModelTarget:
    """Returns a model of a local server."""
    note = f"Served by {server.name} on this machine."
    endpoint = Endpoint(server.name, server.base_url, silence=_LOCAL_SILENCE)
    return ModelTarget(
        endpoint,
        ModelInfo(server.id, model, model, _LOCAL_WINDOW, cost=ModelCost(), note=note),
        server=server,
    )


def _api(provider: ProviderConfig, hosted: KnownProvider | None) -> str:
    """Returns the configured wire format of a provider, or its default."""
    if provider.api is not None:
        return provider.api
    if hosted is not None and str(provider.base_url).rstrip("/") == hosted.base_url:
        return hosted.api
    return USUAL


def _info(provider: str, entry: ModelConfig, fact: Fact, window: int, api: str) -> ModelInfo:
    """Returns the facts of a model; values of the file override those of the catalogue."""
    configured = entry.model_fields_set
    price = entry.cost
    cost = ModelCost(price.input, price.output, price.cache_read, price.cache_write)
    return ModelInfo(
        provider,
        entry.id,
        entry.name or entry.id,
        entry.context_window if "context_window" in configured else window,
        max_tokens=entry.max_tokens
        if "max_tokens" in configured
        else min(fact.max_tokens or _ANSWER, _LONG_ANSWER),
        reasoning=entry.reasoning if "reasoning" in configured else fact.reasoning,
        input=frozenset(entry.input if "input" in configured else fact.input),
        cost=cost if "cost" in configured else fact.cost.as_model_cost(),
        api=api,
        thinking=entry.thinking,
    )
