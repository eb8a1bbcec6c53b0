"""Resolution of `provider/model` to an endpoint and the facts of the model (pure)."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from difflib import get_close_matches
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.auth.profiles import Kind, Profile
from skerry.config.models import Api, Mode, ModelConfig, ModelsConfig, ProviderConfig
from skerry.model.errors import ModelAuthError, ModelUnavailableError
from skerry.ports.model import ModelCost, ModelInfo
from skerry.providers.builtin_providers import KNOWN, KnownProvider, LocalServer, known_provider
from skerry.providers.model_catalog import Fact, Facts
from skerry.providers.streaming_call import Endpoint

_LOCAL_SILENCE: Final = 600.0  # a local server may load a large model before its first byte
_LOCAL_WINDOW: Final = 32_768  # they do not say; most are started with less than hosted ones have
_WINDOW: Final = 200_000
_ALIKE: Final = 0.75  # of 1: a misspelt name, not another one that shares some letters
_ANSWER: Final = 8192
_LONG_ANSWER: Final = 32_000
"""Tokens that an answer gets of what its model could write, unless the file says more: an answer of
128,000 tokens costs what nobody meant to spend."""


class Target(Struct, frozen=True):
    """A model and where it is asked."""

    endpoint: Endpoint
    info: ModelInfo
    server: LocalServer | None = None
    """The server on this machine that was found for it, which may go away at any time."""


class Resolver(Struct, frozen=True):
    """Knows what the configuration and the environment name; asks nobody."""

    models: ModelsConfig
    environ: Mapping[str, str]
    servers: Sequence[LocalServer]
    facts: Facts

    @property
    def looks_around(self) -> bool:
        """Returns whether providers and servers count that the file does not name."""
        return self.models.mode is Mode.MERGE

    def with_key(self, profiled: Container[str] = ()) -> Iterator[Target]:
        """Gives the hosted providers whose key is in the environment, in the order of `KNOWN`.

        Those of `profiled`, for which there is an auth profile, count too.

        One that the file describes too is asked at the address of the file: a key goes nowhere
        else.
        """
        for known in KNOWN if self.looks_around else ():
            if self._key(known) or known.id in profiled:
                yield self.named(known.id, keyless=True)

    def configured(self) -> Iterator[Target]:
        """Gives the models of `models.providers`, in the order of the file."""
        for name, provider in self.models.providers.items():
            for model in provider.models:
                yield self._configured(name, provider, model.id)

    def catalogued(self) -> Iterator[ModelInfo]:
        """Gives every model of the catalogue whose provider is known, usable or not."""
        for known in KNOWN if self.looks_around else ():
            note = "" if self._key(known) else f"Needs {known.variables[0]}."
            for model in self.facts.models(known.id):
                target = self._hosted(known, known.id, model, "")
                yield replace(target.info, note=note)

    def named(self, ref: str, *, keyless: bool = False) -> Target:
        """Returns the model `provider/model`; `provider` alone is its first or usual model.

        `keyless`: also where neither the file nor the environment has a key.

        Raises:
            ModelUnavailableError: nobody has that name, or its key is missing.
        """
        name, _, model = ref.partition("/")
        provider = self.models.providers.get(name)
        if provider is not None:
            known = known_provider(name)
            listed = provider.models[0].id if provider.models else ""
            model = model or listed or (known.model if known else "")
            if model:
                return self._configured(name, provider, model)
        elif self.looks_around:
            found = self._found(name, model, keyless=keyless)
            if found is not None:
                return found
        raise self._unknown(ref, name)

    def _found(self, name: str, model: str, *, keyless: bool) -> Target | None:
        """Returns the model of a provider that the file does not name."""
        known = known_provider(name)
        if known is not None:
            key = self._key(known)
            if not key and not keyless:
                raise ModelUnavailableError(
                    f"No key is set for {known.name}.",
                    f"Set {known.variables[0]} in the environment, or enter the key on the page, or"
                    f" with skerry auth add {known.id}.",
                )
            return self._hosted(known, name, model or known.model, key)
        server = next((one for one in self.servers if one.id == name), None)
        return local(server, model) if server is not None and model else None

    def _key(self, known: KnownProvider) -> str:
        values = (self.environ.get(variable, "").strip() for variable in known.variables)
        return _sendable(known.name, next(filter(None, values), ""))

    def _configured(self, name: str, provider: ProviderConfig, model: str) -> Target:
        known = known_provider(name)
        title = known.name if known else name
        key = provider.api_key.get_secret_value().strip() if provider.api_key else ""
        key = _sendable(title, key) or (self._key(known) if known else "")
        entry = next((one for one in provider.models if one.id == model), ModelConfig(id=model))
        headers = {name.lower(): value for name, value in provider.headers.items()}
        headers |= {name.lower(): value for name, value in entry.headers.items()}
        field = known.output_limit if known else "max_tokens"
        endpoint = Endpoint(
            title,
            str(provider.base_url),
            key or None,
            field if "max_tokens" in entry.model_fields_set else None,
            api=entry.api or _api(provider, known),
            silence=provider.timeout_seconds,
            first_byte=provider.first_byte_seconds,
            headers=tuple(
                (name, _sendable(title, value.get_secret_value().strip()))
                for name, value in headers.items()
            ),
        )
        fact = self.facts.of(known.id if known else name, model, endpoint.base_url)
        window = fact.context_window or (known.context_window if known else _WINDOW)
        info = _info(name, entry, fact, window, endpoint.api)
        return Target(endpoint, info)

    def _hosted(self, known: KnownProvider, name: str, model: str, key: str) -> Target:
        fact = self.facts.of(known.id, model, known.base_url)
        window = fact.context_window or known.context_window
        endpoint = Endpoint(known.name, known.base_url, key or None, api=known.api)
        return Target(endpoint, _info(name, ModelConfig(id=model), fact, window, known.api))

    def _unknown(self, ref: str, name: str) -> ModelUnavailableError:
        names = dict.fromkeys(self.models.providers)
        names |= dict.fromkeys(
            [*(one.id for one in KNOWN), *(server.id for server in self.servers)]
        )
        near = get_close_matches(name, names, n=1, cutoff=_ALIKE)
        hint = f" Did you mean {near[0]}/...?" if near and near[0] != name else ""
        return ModelUnavailableError(
            f"Unknown model {ref!r}; a model is named provider/model.{hint}",
            f"Known providers: {', '.join(names)}, embedded. Others go into models.providers.",
        )


def _sendable(provider: str, key: str) -> str:
    """Returns the key if it can stand in a header; what was copied badly often cannot."""
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailableError(
            f"The key for {provider} has characters that no key has.", "Copy and enter it again."
        )
    return key


def shown(target: Target, profile: Profile, secret: str) -> Target:
    """Returns the target with a profile's secret in the place of any other.

    Raises:
        ModelAuthError: the profile was entered for another address: a secret goes nowhere else.
    """
    endpoint, known = target.endpoint, known_provider(profile.provider)
    meant = profile.base_url or (known.base_url if known else "")
    if endpoint.base_url.rstrip("/") != meant.rstrip("/"):
        error = ModelAuthError(
            f"{profile.id} is not for the address {endpoint.base_url}"
            + (f" but for {meant}." if meant else ", and names none.")
        )
        error.remedy = f"Enter it for this one: skerry auth add {profile.provider}."
        raise error
    if profile.kind is Kind.API_KEY or endpoint.api.startswith("openai-"):
        return replace(target, endpoint=changed(endpoint, api_key=secret))
    headers = tuple(header for header in endpoint.headers if header[0] != "authorization")
    bearer = ("authorization", f"Bearer {secret}")  # RFC 6750; these formats have a key header
    return replace(target, endpoint=changed(endpoint, api_key=None, headers=(*headers, bearer)))


def local(server: LocalServer, model: str) -> Target:
    """Returns a model of a local server."""
    note = f"Served by {server.name} on this machine."
    endpoint = Endpoint(server.name, server.base_url, silence=_LOCAL_SILENCE)
    return Target(
        endpoint,
        ModelInfo(server.id, model, model, _LOCAL_WINDOW, cost=ModelCost(), note=note),
        server=server,
    )


def _api(provider: ProviderConfig, known: KnownProvider | None) -> Api:
    """Returns the wire format of a provider for which the file names none."""
    if provider.api is not None:
        return provider.api
    if known is not None and str(provider.base_url).rstrip("/") == known.base_url:
        return known.api
    return Api.OPENAI_COMPLETIONS


def _info(provider: str, entry: ModelConfig, fact: Fact, window: int, api: str) -> ModelInfo:
    """Returns the facts of a model: those of the file, then those of the catalogue."""
    said = entry.model_fields_set
    price = entry.cost
    cost = ModelCost(price.input, price.output, price.cache_read, price.cache_write)
    return ModelInfo(
        provider,
        entry.id,
        entry.name or entry.id,
        entry.context_window if "context_window" in said else window,
        max_tokens=entry.max_tokens
        if "max_tokens" in said
        else min(fact.max_tokens or _ANSWER, _LONG_ANSWER),
        reasoning=entry.reasoning if "reasoning" in said else fact.reasoning,
        input=frozenset(entry.input if "input" in said else fact.input),
        cost=cost if "cost" in said else fact.cost.known(),
        api=api,
        thinking=entry.thinking,
    )
