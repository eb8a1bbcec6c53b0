"""Section `models`: providers in addition to the detected ones."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, HttpUrl, SecretStr, WithJsonSchema

from skerry.config.base import OpenSection
from skerry.infra.features import WIRE_FORMATS
from skerry.model.thinking import ThinkingLevel


class Mode(StrEnum):
    """Relation of `models.providers` to the built-in providers."""

    MERGE = "merge"
    REPLACE = "replace"


_PLUGIN_API: Final = r"[a-z0-9][a-z0-9_-]*\.[a-zA-Z0-9._-]{1,64}"
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED_HEADERS: Final = frozenset({"connection", "content-length", "transfer-encoding"})


def _api(value: str) -> str:
    """Returns the name of a wire format; `<id>.<name>` is a format of the plugin `<id>`."""
    if value not in WIRE_FORMATS and re.fullmatch(_PLUGIN_API, value) is None:
        names = ", ".join(f"'{name}'" for name in WIRE_FORMATS)
        message = f"expected {names}, or '<id>.<name>' of a plugin"
        raise ValueError(message)
    return value


_API_SCHEMA: Final = {
    "anyOf": [{"enum": list(WIRE_FORMATS)}, {"type": "string", "pattern": f"^{_PLUGIN_API}$"}]
}
Api = Annotated[str, AfterValidator(_api), WithJsonSchema(_API_SCHEMA)]
"""Name of a wire format of model APIs: built in, or `<id>.<name>` of a plugin."""


def _headers(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in value:
        if _HEADER.fullmatch(name) is None or name.lower() in _RESERVED_HEADERS:
            message = f"{name!r} is not a header that can be set"
            raise ValueError(message)
    return value


def plain_address(value: HttpUrl) -> HttpUrl:
    """Returns the address if a path can be appended to it. Raises `ValueError`."""
    if value.query is not None or value.fragment is not None:
        message = "must not contain '?' or '#', because a path is appended to it"
        raise ValueError(message)
    return value


Headers = Annotated[dict[str, SecretStr], AfterValidator(_headers)]


class CostConfig(OpenSection):
    """Prices in US dollars per million tokens."""

    input: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of input tokens."""
    output: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of output tokens."""
    cache_read: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of tokens read from the provider's cache."""
    cache_write: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of tokens written to the provider's cache."""


class ModelConfig(OpenSection):
    """One model of a provider; unset keys take the values of the catalogue, if it has the model."""

    id: str = Field(min_length=1)
    """Id that the provider uses."""
    name: str = ""
    """Name that people see; the id when empty."""
    api: Api | None = None
    """Wire format of the model, if it differs from the provider's."""
    reasoning: bool = False
    """Marks a model that can reason before it answers."""
    thinking: tuple[ThinkingLevel, ...] = ()
    """Reasoning levels of a model with `reasoning`; an empty list is all levels."""
    input: tuple[Literal["text", "image"], ...] = ("text",)
    """Kinds of input that the model accepts."""
    cost: CostConfig = CostConfig.model_construct()
    context_window: int = Field(default=200_000, ge=1)
    """Maximum tokens of prompt and answer together."""
    max_tokens: int = Field(default=8192, ge=1)
    """Maximum tokens of an answer."""
    headers: Headers = Field(default_factory=dict)
    """Headers that are sent with every call; they override those of the provider."""


class ProviderConfig(OpenSection):
    """One model API."""

    base_url: Annotated[HttpUrl, AfterValidator(plain_address)]
    """Address up to and including the version, such as `/v1`; a path is appended to it."""
    api_key: SecretStr | None = None
    """Key that is sent to `baseUrl` only."""
    api: Api | None = None
    """Wire format; when unset, that of the known provider at this address, else
    `openai-completions`."""
    headers: Headers = Field(default_factory=dict)
    """Headers that are sent with every call; they override built-in headers."""
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600, allow_inf_nan=False)
    """Seconds without a byte of the response after which a call fails."""
    first_byte_seconds: float | None = Field(default=None, gt=0, le=3600, allow_inf_nan=False)
    """Seconds until the first byte of the response; when unset, and at most, `timeoutSeconds`."""
    models: tuple[ModelConfig, ...] = ()
    """Models of the provider; for a provider in the catalogue, those with different settings."""


class EmbeddedConfig(OpenSection):
    """The embedded model, which runs in a child process."""

    file: Path | None = None
    """GGUF file of the model; when unset, the packaged demonstration model."""
    threads: int = Field(default=1, ge=1, le=64)
    """Threads of the child process. More threads than free cores make it slower."""
    context_window: int = Field(default=4096, ge=512)
    """Maximum tokens of prompt and answer together."""


class ModelsConfig(OpenSection):
    """Providers in addition to the detected ones."""

    mode: Mode = Mode.MERGE
    """`merge` adds `providers` to the detected ones; `replace` detects none."""
    providers: dict[str, ProviderConfig] = Field(default_factory=dict)
    """Providers by name: a name that you choose, or that of a known provider."""
    embedded: EmbeddedConfig = EmbeddedConfig.model_construct()


class AllowedModel(OpenSection):
    """One entry of `agents.defaults.models`."""

    alias: str = Field(default="", max_length=64, pattern=r"^[^/\s]*$")
    """Short name of the model."""
