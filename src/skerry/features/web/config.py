"""Section `tools.web.search`: providers of results."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import Section
from skerry.config.models import plain_address

_BaseUrl = Annotated[HttpUrl, AfterValidator(plain_address)]


class PerplexityConfig(Section):
    """Perplexity, or a server with the same API."""

    api_key: SecretStr | None = None
    """Key; without it `PERPLEXITY_API_KEY` of the environment."""
    base_url: _BaseUrl = HttpUrl("https://api.perplexity.ai")
    """Address up to `/chat/completions`."""
    model: str = Field(default="sonar-pro", min_length=1, max_length=200)
    """Model that searches and answers."""


class SearxngConfig(Section):
    """A SearXNG of the owner, whose format `json` must be enabled."""

    base_url: _BaseUrl | None = None
    """Address, which may be local. Without it `SEARXNG_BASE_URL` of the environment."""


class WebSearchConfig(Section):
    """The tool `web_search`."""

    enabled: bool = True
    """Offers the tool."""
    provider: Literal["brave", "searxng", "perplexity", "plugin"] | None = None
    """Provider of results: `plugin` is the provider of a plugin. When unset, the first of the other
    providers with a key or address."""
    api_key: SecretStr | None = None
    """Key of Brave; without it `BRAVE_API_KEY` of the environment."""
    max_results: int = Field(default=5, ge=1, le=10)
    """Number of results, unless the model requests another number."""
    timeout_seconds: float = Field(default=30.0, ge=1, le=30)
    """Maximum time of a search."""
    cache_ttl_minutes: float = Field(default=15.0, ge=0, le=1440)
    """Time for which results are cached; 0 disables the cache."""
    perplexity: PerplexityConfig = PerplexityConfig.model_construct()
    searxng: SearxngConfig = SearxngConfig.model_construct()
