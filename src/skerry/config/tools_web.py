"""Section `tools.web`: what fetches may reach."""

from functools import cached_property

from pydantic import Field, field_validator

from skerry.config.base import Section
from skerry.policy.network import NetworkRules
from skerry.policy.urls import Target, parse_url

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
            name = text.removeprefix("*.")
            parsed = parse_url(f"http://{name}/")
            if not isinstance(parsed, Target) or parsed.authority != name.lower().rstrip("."):
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
    """Fetching pages."""

    ssrf_policy: SsrfPolicy = SsrfPolicy.model_construct()


class WebToolsConfig(Section):
    """Tools that reach the internet."""

    fetch: WebFetchConfig = WebFetchConfig.model_construct()
