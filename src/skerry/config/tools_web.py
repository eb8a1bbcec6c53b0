"""Section `tools.web`: fetching of pages, and the hosts that fetches may reach."""

from functools import cached_property
from typing import Final

from pydantic import Field, field_validator

from skerry.config.base import Section, with_sections
from skerry.policy.network import NetworkRules, is_host_pattern
from skerry.policy.urls import Target, parse_url

MAX_CHARS: Final = 2_000_000
"""Maximum characters of a page for a model."""
MAX_RESPONSE: Final = 10 * 1024 * 1024
_HOSTS = Field(default=(), max_length=1000)


class SsrfPolicy(Section):
    """Exceptions from the rule that fetches may reach only the public internet."""

    allow_private_network: bool = False
    """Permits hosts of the local network and of this machine, on ports 80, 443, 8080 and 8443.
    Metadata services with a machine's credentials remain closed."""
    allowed_hostnames: tuple[str, ...] = _HOSTS
    """Local hosts with a port, such as `nas.lan:8080`, that may be fetched."""
    hostname_allowlist: tuple[str, ...] = _HOSTS
    """The only hosts that may be fetched; an empty list allows all. `*.example.com` is every
    subdomain."""

    @field_validator("allowed_hostnames")
    @classmethod
    def _have_ports(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            _named(text)
        return value

    @field_validator("hostname_allowlist")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if not is_host_pattern(text):
                raise ValueError(f"{text!r} is not a host: write example.com or *.example.com")
        return value

    @cached_property
    def rules(self) -> NetworkRules:
        """Returns the settings in the form of the policy."""
        return NetworkRules(
            allow_private=self.allow_private_network,
            allowed_hosts=frozenset(map(_named, self.allowed_hostnames)),
            only_hosts=self.hostname_allowlist,
        )


def _named(text: str) -> tuple[str, int]:
    """Returns host and port of an entry.

    Raises:
        ValueError: the entry has no port, or its host is not valid.
    """
    _, colon, port = text.rpartition(":")
    target = parse_url(f"http://{text}/")
    if not (colon and port.isdecimal()) or not isinstance(target, Target) or target.path != "/":
        raise ValueError(f"{text!r} is not a host with its port: write nas.lan:8080")
    return target.host, target.port


class WebFetchConfig(Section):
    """The tool `web_fetch`, and limits of every fetch."""

    enabled: bool = True
    """Offers the tool."""
    max_chars: int = Field(default=50_000, ge=100, le=MAX_CHARS)
    """Maximum characters of a result, if the model requests no other number."""
    max_chars_cap: int = Field(default=50_000, ge=100, le=MAX_CHARS)
    """Maximum characters that the model may request."""
    max_response_bytes: int = Field(default=2_000_000, ge=32_000, le=MAX_RESPONSE)
    """Maximum decoded bytes of a page that are read; a longer page is cut."""
    timeout_seconds: float = Field(default=30.0, ge=1, le=30)
    """Time limit of a fetch in seconds, including redirects."""
    cache_ttl_minutes: float = Field(default=15.0, ge=0, le=1440)
    """Minutes for which a page is cached; 0 disables the cache."""
    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; Skerry)", max_length=200, pattern=r"^[\x20-\x7e]+$"
    )
    """Header `User-Agent` of requests."""
    ssrf_policy: SsrfPolicy = SsrfPolicy.model_construct()


@with_sections("tools.web")
class WebToolsConfig(Section):
    """Tools that access the internet."""

    fetch: WebFetchConfig = WebFetchConfig.model_construct()
