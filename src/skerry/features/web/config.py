"""Section `tools.web.search`: providers of results."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import Section
from skerry.config.models import plain_address

_BaseUrl = Annotated[HttpUrl, AfterValidator(plain_address)]


class PerplexityConfig(Section):
    """Perplexity, or a server that speaks like it."""

    api_key: SecretStr | None = None
    """Key; without it `PERPLEXITY_API_KEY` of the environment."""
    base_url: _BaseUrl = HttpUrl("https://api.perplexity.ai")
    """Address up to `/chat/completions`."""
    model: str = Field(default="sonar-pro", min_length=1, max_length=200)
    """Model that searches and answers."""


class SearxngConfig(Section):
    """A SearXNG of the owner, which must have the format `json` enabled."""

    base_url: _BaseUrl | None = None
    """Its address; it may be local. Without it `SEARXNG_BASE_URL` of the environment."""


class WebSearchConfig(Section):
    """The tool `web_search`."""

    enabled: bool = True
    """Offers the tool."""
    provider: Literal["brave", "searxng", "perplexity", "plugin"] | None = None
    """Provider of results: `plugin` is the one of a plugin. When unset, the first of the others
    that has its key or address."""
    api_key: SecretStr | None = None
    """Key of Brave; without it `BRAVE_API_KEY` of the environment."""
    max_results: int = Field(default=5, ge=1, le=10)
    """Results, where the model asks for no other number."""
    timeout_seconds: float = Field(default=30.0, ge=1, le=30)
    """Limit of a search."""
    cache_ttl_minutes: float = Field(default=15.0, ge=0, le=1440)
    """Time for which results are kept; 0 keeps none."""
    perplexity: PerplexityConfig = PerplexityConfig.model_construct()
    searxng: SearxngConfig = SearxngConfig.model_construct()
