"""From `provider/model` to an endpoint and what is known of the model (pure)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from skerry.config.models import ModelConfig, ModelsConfig, ProviderConfig
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import ModelInfo
from skerry.providers.exchange import Endpoint
from skerry.providers.known import KNOWN, KnownProvider, LocalServer, known_provider

_LOCAL_SILENCE: Final = 600.0  # a local server may load a large model before its first byte
_LOCAL_WINDOW: Final = 32_768  # they do not say; most are started with less than hosted ones have


@dataclass(frozen=True, slots=True)
class Target:
    """A model and where it is asked."""

    endpoint: Endpoint
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class Resolver:
    """Knows what the configuration and the environment name; asks nobody."""

    models: ModelsConfig
    environ: Mapping[str, str]
    servers: Sequence[LocalServer]

    def with_key(self) -> Iterator[Target]:
        """Give the hosted providers whose key is in the environment, in the order of `KNOWN`.

        One that the file describes too is asked at the address of the file: a key goes nowhere
        else.
        """
        for known in KNOWN:
            if self._key(known):
                yield self.named(known.id)

    def configured(self) -> Iterator[Target]:
        """Give the models of `models.providers`, in the order of the file."""
        for name, provider in self.models.providers.items():
            for model in provider.models:
                yield self._configured(name, provider, model.id)

    def named(self, ref: str) -> Target:
        """Return the model `provider/model`; `provider` alone is its first or usual model.

        Raises:
            ModelUnavailableError: nobody has that name, or its key is missing.
        """
        name, _, model = ref.partition("/")
        provider = self.models.providers.get(name)
        known = known_provider(name)
        if provider is not None:
            listed = provider.models[0].id if provider.models else ""
            model = model or listed or (known.model if known else "")
            if model:
                return self._configured(name, provider, model)
        elif known is not None:
            key = self._key(known)
            if not key:
                raise ModelUnavailableError(
                    f"There is no key for {known.name}.",
                    f"Set {known.variables[0]} in the environment, or enter the key on the page.",
                )
            return _hosted(known, model or known.model, key)
        server = next((one for one in self.servers if one.id == name), None)
        if server is not None and model:
            return local(server, model)
        raise self._unknown(ref, name)

    def _key(self, known: KnownProvider) -> str:
        values = (self.environ.get(variable, "").strip() for variable in known.variables)
        return _sendable(known.name, next(filter(None, values), ""))

    def _configured(self, name: str, provider: ProviderConfig, model: str) -> Target:
        known = known_provider(name)
        title = known.name if known else name
        key = provider.api_key.get_secret_value().strip() if provider.api_key else ""
        key = _sendable(title, key) or (self._key(known) if known else "")
        entry = next((one for one in provider.models if one.id == model), ModelConfig(id=model))
        limits = "max_tokens" in entry.model_fields_set
        window = entry.context_window
        if known and "context_window" not in entry.model_fields_set:
            window = known.context_window
        field = known.output_limit if known else "max_tokens"
        endpoint = Endpoint(
            title,
            str(provider.base_url),
            key or None,
            field if limits else None,
        )
        info = ModelInfo(name, model, entry.name or model, window, max_tokens=entry.max_tokens)
        return Target(endpoint, info)

    def _unknown(self, ref: str, name: str) -> ModelUnavailableError:
        names = dict.fromkeys(self.models.providers)
        names |= dict.fromkeys([*(one.id for one in KNOWN), *(one.id for one in self.servers)])
        near = get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]}/...?" if near and near[0] != name else ""
        return ModelUnavailableError(
            f"There is no model {ref!r}; a model is named provider/model.{hint}",
            f"Known providers: {', '.join(names)}, embedded. Others go into models.providers.",
        )


def _sendable(provider: str, key: str) -> str:
    """Return the key if it can stand in a header; what was copied badly often cannot."""
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailableError(
            f"The key for {provider} has characters that no key has.", "Copy and enter it again."
        )
    return key


def local(server: LocalServer, model: str) -> Target:
    """Return a model of a local server."""
    note = f"Served by {server.name} on this machine."
    endpoint = Endpoint(server.name, server.base_url, silence=_LOCAL_SILENCE)
    return Target(endpoint, ModelInfo(server.id, model, model, _LOCAL_WINDOW, note=note))


def _hosted(known: KnownProvider, model: str, key: str) -> Target:
    return Target(
        Endpoint(known.name, known.base_url, key),
        ModelInfo(known.id, model, model, known.context_window),
    )
