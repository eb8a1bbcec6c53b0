"""Section `models`: providers beyond those that are found by themselves."""

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
    """Returns the name of a wire format; one with a dot is of the plugin before the dot."""
    if value not in WIRE_FORMATS and re.fullmatch(_PLUGIN_API, value) is None:
        names = ", ".join(f"'{name}'" for name in WIRE_FORMATS)
        message = f"expected {names}, or '<id>.<name>' of a plugin"
        raise ValueError(message)
    return value


_API_SCHEMA: Final = {
    "anyOf": [{"enum": list(WIRE_FORMATS)}, {"type": "string", "pattern": f"^{_PLUGIN_API}$"}]
}
Api = Annotated[str, AfterValidator(_api), WithJsonSchema(_API_SCHEMA)]
"""Name of a wire format of model APIs: of a feature, or `<id>.<name>` of a plugin."""


def _headers(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in value:
        if _HEADER.fullmatch(name) is None or name.lower() in _RESERVED_HEADERS:
            message = f"{name!r} is no header that can be set"
            raise ValueError(message)
    return value


def plain_address(value: HttpUrl) -> HttpUrl:
    """Returns the address if the rest can be added to it. Raises `ValueError`."""
    if value.query is not None or value.fragment is not None:
        message = "an address to which the rest is added can hold no '?' and no '#'"
        raise ValueError(message)
    return value


Headers = Annotated[dict[str, SecretStr], AfterValidator(_headers)]


class CostConfig(OpenSection):
    """Prices of a million tokens, in US dollars."""

    input: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of input tokens."""
    output: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of output tokens."""
    cache_read: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of tokens read from the provider's cache."""
    cache_write: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of tokens written to the provider's cache."""


class ModelConfig(OpenSection):
    """One model of a provider; what is not said comes from the catalogue, if it knows the model."""

    id: str = Field(min_length=1)
    """Id that the provider uses."""
    name: str = ""
    """Shown to people; the id where empty."""
    api: Api | None = None
    """API of the model, where it differs from the provider's."""
    reasoning: bool = False
    """Marks a model that can reason before it answers."""
    thinking: tuple[ThinkingLevel, ...] = ()
    """The levels that it has where it can think; without them all."""
    input: tuple[Literal["text", "image"], ...] = ("text",)
    """Kinds of input that the model accepts."""
    cost: CostConfig = CostConfig.model_construct()
    context_window: int = Field(default=200_000, ge=1)
    """Tokens that prompt and answer may have together."""
    max_tokens: int = Field(default=8192, ge=1)
    """Tokens that an answer may have."""
    headers: Headers = Field(default_factory=dict)
    """Headers sent with every call; they override those of the provider."""


class ProviderConfig(OpenSection):
    """One model API."""

    base_url: Annotated[HttpUrl, AfterValidator(plain_address)]
    """Up to and including the version, such as `/v1`; the rest of the address is added."""
    api_key: SecretStr | None = None
    """Key sent to `baseUrl` only."""
    api: Api | None = None
    """The wire format; without one that of the known provider at this address, else
    `openai-completions`."""
    headers: Headers = Field(default_factory=dict)
    """Headers sent with every call; they override our own."""
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600, allow_inf_nan=False)
    """Seconds that an answer may be silent; then the call has failed."""
    first_byte_seconds: float | None = Field(default=None, gt=0, le=3600, allow_inf_nan=False)
    """Seconds until its first byte; without a value, and at most, `timeoutSeconds`."""
    models: tuple[ModelConfig, ...] = ()
    """Its models; of a provider in the catalogue, those of which something is to be said."""


class EmbeddedConfig(OpenSection):
    """The model that runs inside, in a child process."""

    file: Path | None = None
    """A GGUF file; without one the packaged demonstration model."""
    threads: int = Field(default=1, ge=1, le=64)
    """Threads of the child. More than the free cores makes it slower."""
    context_window: int = Field(default=4096, ge=512)
    """Tokens that prompt and answer may have together."""


class ModelsConfig(OpenSection):
    """Providers beyond those that are found by themselves."""

    mode: Mode = Mode.MERGE
    """`merge` adds `providers` to those that are found by themselves; `replace` looks for none."""
    providers: dict[str, ProviderConfig] = Field(default_factory=dict)
    """Each by a name of your own, or that of a known provider."""
    embedded: EmbeddedConfig = EmbeddedConfig.model_construct()


class AllowedModel(OpenSection):
    """One entry of `agents.defaults.models`."""

    alias: str = Field(default="", max_length=64, pattern=r"^[^/\s]*$")
    """A short name for it."""
