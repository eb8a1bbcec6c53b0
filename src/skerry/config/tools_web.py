"""Section `tools.web`: fetching pages, and what every fetch may reach."""

from functools import cached_property
from typing import Final

from pydantic import Field, field_validator

from skerry.config.base import Section, with_sections
from skerry.policy.network import NetworkRules, is_host_pattern
from skerry.policy.urls import Target, parse_url

MAX_CHARS: Final = 2_000_000
"""Characters of a page that a model can be given at most."""
MAX_RESPONSE: Final = 10 * 1024 * 1024
_HOSTS = Field(default=(), max_length=1000)


class SsrfPolicy(Section):
    """Exceptions from the rule that fetches reach the public internet alone."""

    allow_private_network: bool = False
    """Opens names and addresses of the local network and of this machine, on ports 80, 443, 8080
    and 8443. Services that hand out the credentials of a machine stay closed."""
    allowed_hostnames: tuple[str, ...] = _HOSTS
    """Hosts with a port, such as `nas.lan:8080`, that may be fetched though they are local."""
    hostname_allowlist: tuple[str, ...] = _HOSTS
    """The only names that may be fetched, if there are any; `*.example.com` is each name below."""

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
                raise ValueError(f"{text!r} is not a name: write example.com or *.example.com")
        return value

    @cached_property
    def rules(self) -> NetworkRules:
        """Returns the settings as the policy takes them."""
        return NetworkRules(
            allow_private=self.allow_private_network,
            allowed_hosts=frozenset(map(_named, self.allowed_hostnames)),
            only_hosts=self.hostname_allowlist,
        )


def _named(text: str) -> tuple[str, int]:
    """Returns host and port of an entry.

    Raises:
        ValueError: it has no port, or is no host.
    """
    _, colon, port = text.rpartition(":")
    target = parse_url(f"http://{text}/")
    if not (colon and port.isdecimal()) or not isinstance(target, Target) or target.path != "/":
        raise ValueError(f"{text!r} is not a host with its port: write nas.lan:8080")
    return target.host, target.port


class WebFetchConfig(Section):
    """The tool `web_fetch`, and what every fetch may reach."""

    enabled: bool = True
    """Offers the tool."""
    max_chars: int = Field(default=50_000, ge=100, le=MAX_CHARS)
    """Characters of a result, where the model asks for no other number."""
    max_chars_cap: int = Field(default=50_000, ge=100, le=MAX_CHARS)
    """Characters that the model may ask for."""
    max_response_bytes: int = Field(default=2_000_000, ge=32_000, le=MAX_RESPONSE)
    """Decoded bytes of a page that are read; the rest is left out."""
    timeout_seconds: float = Field(default=30.0, ge=1, le=30)
    """Limit of a fetch with its redirects."""
    cache_ttl_minutes: float = Field(default=15.0, ge=0, le=1440)
    """Time for which a page is not fetched again; 0 keeps none."""
    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; Skerry)", max_length=200, pattern=r"^[\x20-\x7e]+$"
    )
    """Header `User-Agent` of requests."""
    ssrf_policy: SsrfPolicy = SsrfPolicy.model_construct()


@with_sections("tools.web")
class WebToolsConfig(Section):
    """Tools that reach the internet."""

    fetch: WebFetchConfig = WebFetchConfig.model_construct()
