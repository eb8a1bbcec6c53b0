"""Section `skills.registry`: the registry of skills."""

from typing import Annotated, Final

from pydantic import AfterValidator, HttpUrl, SecretStr

from skerry.config.base import Section
from skerry.config.models import plain_address
from skerry.policy.addresses import AddressKind, kind_of, parse_address

_LOOPBACK_NAME: Final = "localhost"


def _encrypted(url: HttpUrl) -> HttpUrl:
    if url.scheme == "https" or is_loopback(url.host or ""):
        return url
    raise ValueError("a registry that is not on this machine needs https")


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is this machine."""
    address = parse_address(host.strip("[]"))
    if address is None:
        return host == _LOOPBACK_NAME
    return kind_of(address) is AddressKind.LOOPBACK


class SkillRegistryConfig(Section):
    """The registry of `skerry skills search`, `install`, `update` and `publish`."""

    url: Annotated[HttpUrl, AfterValidator(plain_address), AfterValidator(_encrypted)] = HttpUrl(
        "https://clawhub.ai"
    )
    """Address of the registry, https; http is accepted for this machine only."""
    token: SecretStr | None = None
    """Token of your account, to publish; without it `CLAWHUB_TOKEN` of the environment."""
