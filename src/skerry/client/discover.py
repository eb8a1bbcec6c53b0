"""Finds the address and the token of the gateway: from options, environment, or configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from skerry.client.device_key import KEY
from skerry.config import source
from skerry.config.gateway import LOCK
from skerry.config.include import included
from skerry.config.load import PORT, Loaded, given_password, given_token, load_good, locate
from skerry.config.references import names
from skerry.config.root import Config
from skerry.config.secret_values import UNFETCHED
from skerry.infra.lock import owner
from skerry.model.errors import ClientError, ConfigInvalidError

URL: Final = "SKERRY_GATEWAY_URL"


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Address of a gateway, and the token or password for it."""

    url: str
    token: str | None = field(default=None, repr=False)
    key: Path | None = None
    """File of the key that identifies this machine to a gateway on another machine."""


def find(
    environ: Mapping[str, str], *, url: str | None = None, token: str | None = None
) -> GatewayAddress:
    """Returns the address of the gateway from options, environment or configuration.

    The url is `url`, `SKERRY_GATEWAY_URL`, or this machine with the port of the environment, of the
    gateway that runs on the state directory, or of the configuration. The token is `token`, that of
    the environment, or that of the configuration. Another machine gets `token` only, or the token
    of the environment when the url is from there too.

    Raises:
        ConfigInvalidError: the configuration is needed and invalid.
        ClientError: the url is invalid, or would send the token over a network unencrypted.
    """
    named = url or environ.get(URL)
    local = named is None or _is_loopback(named)
    if named is not None:
        _check(named, local=local)
    if token is None and (local or url is None):
        token = given_token(environ) or given_password(environ) or None
    if named is not None and (token or not local):
        return GatewayAddress(named, token, None if local else locate(environ)[0] / KEY)
    config = configured(environ).config
    secret = token or config.gateway.auth.secret
    if secret == UNFETCHED:  # programs that have other secrets take time, or ask a person
        secret = load_good(environ).config.gateway.auth.secret
    return GatewayAddress(named or f"ws://127.0.0.1:{_port(config, environ)}", secret)


def configured(environ: Mapping[str, str]) -> Loaded:
    """Returns the configuration for programs other than the gateway, without fetching secrets.

    A variable that only the gateway has, such as a key, may be unset; its value is `UNFETCHED`.

    Raises:
        ConfigInvalidError: the configuration has another fault, and there is no last good one.
    """
    try:
        return load_good(environ, fetch=False)
    except ConfigInvalidError:
        merged, _ = included(source.read(locate(environ)[1]))
        unset = {name: UNFETCHED for name in names(merged) if not environ.get(name)}
        if not unset:
            raise
        return load_good({**environ, **unset}, fetch=False)


def _port(config: Config, environ: Mapping[str, str]) -> int:
    running = None if environ.get(PORT) else owner(config.state_dir / LOCK)
    if running is not None and running.note.isdecimal():
        return int(running.note)
    return config.gateway.port


def _check(url: str, *, local: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"ws", "wss"} or not parts.hostname:
        raise ClientError(
            f"{url!r} is not the address of a gateway.", "Write it as ws://127.0.0.1:18789."
        )
    if parts.scheme == "ws" and not local:
        message = f"{url} would send the token over the network unencrypted."
        raise ClientError(message, "Use wss://, or an SSH tunnel to 127.0.0.1.")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
