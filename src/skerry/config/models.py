"""Section `models`: providers beyond those that are found by themselves."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field, HttpUrl, SecretStr

from skerry.config.base import OpenSection


class Api(StrEnum):
    """Wire formats of model APIs."""

    OPENAI_COMPLETIONS = "openai-completions"


class ModelConfig(OpenSection):
    """One model of a provider."""

    id: str = Field(min_length=1)
    name: str = ""
    context_window: int = Field(default=200_000, ge=1)
    """Tokens that prompt and answer may have together."""
    max_tokens: int = Field(default=8192, ge=1)
    """Tokens that an answer may have."""


class ProviderConfig(OpenSection):
    """One model API."""

    base_url: HttpUrl
    """Up to and including `/v1`; `/chat/completions` is added."""
    api_key: SecretStr | None = None
    api: Api = Api.OPENAI_COMPLETIONS
    models: tuple[ModelConfig, ...] = ()


class EmbeddedConfig(OpenSection):
    """The model that runs inside, in a child process."""

    file: Path | None = None
    """A GGUF file; without one the packaged demonstration model."""
    threads: int = Field(default=1, ge=1, le=64)
    """Threads of the child. More than the free cores makes it slower."""
    context_window: int = Field(default=4096, ge=512)


class ModelsConfig(OpenSection):
    """Providers beyond those that are found by themselves."""

    providers: dict[str, ProviderConfig] = Field(default_factory=dict)
    embedded: EmbeddedConfig = EmbeddedConfig()
