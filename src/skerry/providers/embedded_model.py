"""The port of the model that runs on this machine, in a process of its own; a feature has it."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from anyio.abc import TaskGroup
from msgspec import Struct

from skerry.config.models import EmbeddedConfig
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import ModelInfo, ModelProvider
from skerry.providers.model_apis import ModelApis

EMBEDDED: Final = "embedded"
"""Provider id of every model that runs in our own child process."""
UNUSABLE: Final = (
    "No model can be used: no provider's key is set, no local model server that you have confirmed"
    " answers, and the demonstration model is not installed."
)
REMEDY: Final = (
    "Enter a provider's key on the page, or set one in the environment (such as OPENAI_API_KEY), or"
    " start Ollama, LM Studio or llama.cpp's server and confirm it (skerry models trust ollama)."
)


class EmbeddedHost(Struct, frozen=True):
    """Parts of the catalogue that the embedded model needs."""

    http: HttpClient
    environ: Mapping[str, str]
    apis: ModelApis
    tasks: Callable[[], TaskGroup]
    """Returns the task group that ends with the catalogue."""


class EmbeddedModel(Protocol):
    """The embedded model of a catalogue."""

    @property
    def starting(self) -> bool:
        """Returns True while its process loads the model."""
        ...

    def choose(self, config: EmbeddedConfig) -> tuple[ModelProvider, ModelInfo]:
        """Returns the model that the configuration names, or the demonstration model.

        Raises:
            ModelUnavailableError: there is no model, or this machine cannot run it.
        """
        ...


class NoEmbedded:
    """Implements `EmbeddedModel` where no feature provides a model."""

    starting = False

    def choose(self, config: EmbeddedConfig) -> tuple[ModelProvider, ModelInfo]:
        """Raises `ModelUnavailableError`."""
        del config
        raise ModelUnavailableError(UNUSABLE, REMEDY)


class ModelParts(Struct, frozen=True):
    """Parts of the catalogue that features provide; each is imported at its first use."""

    apis: ModelApis
    embedded: Callable[[EmbeddedHost], EmbeddedModel] = lambda _: NoEmbedded()
