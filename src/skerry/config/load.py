"""Finds the configuration file and makes one frozen, checked `Config` of it and the environment."""

import copy
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from skerry.config import source, write
from skerry.config.check import check
from skerry.config.gateway import AuthMode
from skerry.config.redact import redact
from skerry.config.root import Config
from skerry.model.errors import ConfigError, ConfigInvalidError, ConfigIssue, ConfigRewriteError

STATE_DIR: Final = "SKERRY_STATE_DIR"
CONFIG_PATH: Final = "SKERRY_CONFIG_PATH"
PORT: Final = "SKERRY_GATEWAY_PORT"
TOKENS: Final = ("SKERRY_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_TOKEN")
PASSWORDS: Final = ("SKERRY_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PASSWORD")

TOKEN_BYTES: Final = 24
"""A token that we write has twice as many hex characters."""
SHORT_TOKEN: Final = 24
"""Characters; a shorter token is warned about."""
SHORT_PASSWORD: Final = 12
"""Characters; a shorter password is warned about."""


class TokenSource(StrEnum):
    """Where the gateway's token comes from."""

    ENVIRONMENT = "environment"
    FILE = "file"
    NONE = "none"
    """There is none: the mode is `none`, or no gateway has started yet."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, the file it came from, and what a person should look at."""

    config: Config
    source: source.Source
    warnings: tuple[ConfigIssue, ...]
    token_source: TokenSource


def locate(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the state directory and the file that the environment names, both absolute."""
    state = _path(environ, environ.get(STATE_DIR) or "~/.skerry")
    return state, _path(environ, environ.get(CONFIG_PATH) or str(state / "skerry.json"))


def load(
    environ: Mapping[str, str], state_dir: Path | None = None, path: Path | None = None
) -> Loaded:
    """Return the configuration; nothing is written. No file is the same as an empty one.

    Of the environment `SKERRY_GATEWAY_TOKEN`, then `OPENCLAW_GATEWAY_TOKEN`, stands over
    `gateway.auth.token` and switches the mode to `token`; without them `SKERRY_GATEWAY_PASSWORD`,
    then `OPENCLAW_GATEWAY_PASSWORD`, over `gateway.auth.password` with mode `password`;
    `SKERRY_GATEWAY_PORT` over `gateway.port`. Empty variables count as absent.

    Raises:
        ConfigInvalidError: all that is wrong.
    """
    found_state, found_path = locate(environ)
    state_dir, path = state_dir or found_state, path or found_path
    read = source.read(path)
    tree, issues = _overlay(read.parsed, environ)
    try:
        config, warnings = check(tree, state_dir=state_dir, path=path)
    except ConfigInvalidError as error:
        raise ConfigInvalidError(str(path), [*error.issues, *issues]) from None
    if issues:
        raise ConfigInvalidError(str(path), issues)
    token_source = _token_source(config, environ)
    warnings += (*_permissions(state_dir, read), *_openings(config, read, token_source))
    return Loaded(config, read, warnings, token_source)


def prepare(
    environ: Mapping[str, str], state_dir: Path | None = None, path: Path | None = None
) -> Loaded:
    """Make the state directory (0700) and a token where there is none; then `load`.

    Raises:
        ConfigInvalidError: all that is wrong; nothing was written.
        ConfigError: the directory or the file cannot be written.
    """
    loaded = load(environ, state_dir, path)
    config = loaded.config
    try:
        config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        failure = ConfigError(f"{config.state_dir} cannot be made: {error.strerror}.")
        failure.remedy = f"Name a directory that you can write to in {STATE_DIR}."
        raise failure from error
    if config.gateway.auth.mode is not AuthMode.TOKEN or config.gateway.auth.token is not None:
        return loaded
    token = secrets.token_hex(TOKEN_BYTES)
    try:
        write.set_values(config.path, {"gateway.auth.token": token}, keep=True)
    except ConfigRewriteError as error:
        addition = 'gateway: {auth: {token: "..."}}'
        error.remedy = f"Add {addition} with a secret of your own, or set {TOKENS[0]}."
        raise
    return load(environ, state_dir, path)


def _path(environ: Mapping[str, str], text: str) -> Path:
    if text == "~" or text.startswith("~/"):
        home = environ.get("HOME")
        return (Path(home) if home else Path.home()) / text[2:]
    return Path(text).absolute()


def _overlay(
    parsed: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[ConfigIssue]]:
    """Return the tree with what the environment says; a wrong shape is left to the check."""
    token, password, port = given_token(environ), given_password(environ), environ.get(PORT)
    if not (token or password or port):
        return parsed, []
    tree = copy.deepcopy(parsed)
    gateway = tree.setdefault("gateway", {})
    issues: list[ConfigIssue] = []
    if port and not (port.isdecimal() and int(port) <= 65_535):  # noqa: PLR2004 - highest TCP port
        issues.append(
            ConfigIssue(PORT, "it must be a port from 0 to 65535.", "Correct or unset it.")
        )
    elif port and isinstance(gateway, dict):
        gateway["port"] = int(port)
    auth = gateway.setdefault("auth", {}) if isinstance(gateway, dict) else None
    if token and isinstance(auth, dict):
        auth.update(token=token, mode=AuthMode.TOKEN.value)
    elif password and isinstance(auth, dict):
        auth.update(password=password, mode=AuthMode.PASSWORD.value)
    return tree, issues


def given_token(environ: Mapping[str, str]) -> str:
    """Return the token that the environment gives, or nothing."""
    return next((text for name in TOKENS if (text := environ.get(name, "").strip())), "")


def given_password(environ: Mapping[str, str]) -> str:
    """Return the password that the environment gives, or nothing."""
    return next((text for name in PASSWORDS if (text := environ.get(name, "").strip())), "")


def _token_source(config: Config, environ: Mapping[str, str]) -> TokenSource:
    if given_token(environ):
        return TokenSource.ENVIRONMENT
    return TokenSource.FILE if config.gateway.auth.token is not None else TokenSource.NONE


def _permissions(state_dir: Path, read: source.Source) -> list[ConfigIssue]:
    issues = []
    holds_secrets = redact(read.parsed) != read.parsed
    if holds_secrets and read.mode is not None and read.mode & 0o077:
        message = f"others can read its secrets (mode {read.mode:04o})."
        issues.append(ConfigIssue(str(read.path), message, f"Run: chmod 600 {read.path}"))
    if state_dir.is_dir() and (mode := state_dir.stat().st_mode & 0o777) & 0o077:
        message = f"others can look into it (mode {mode:04o})."
        issues.append(ConfigIssue(str(state_dir), message, f"Run: chmod 700 {state_dir}"))
    return issues


def _openings(config: Config, read: source.Source, token: TokenSource) -> list[ConfigIssue]:
    auth = config.gateway.auth
    if auth.mode is AuthMode.NONE:
        message = "every program and web page on this machine can steer the agents."
        return [ConfigIssue("gateway.auth.mode", message, "Set it to 'token'.")]
    issues = []
    if config.gateway.control_ui.dangerously_disable_device_auth:
        where = "gateway.controlUi.dangerouslyDisableDeviceAuth"
        message = "the shared secret alone lets other machines in."
        issues.append(ConfigIssue(where, message, "Remove it, and approve devices one by one."))
    if auth.mode is AuthMode.PASSWORD and len(auth.secret or "") < SHORT_PASSWORD:
        message = f"the password is shorter than {SHORT_PASSWORD} characters."
        issues.append(ConfigIssue("gateway.auth.password", message, "Choose a longer one."))
    if auth.token is not None and len(auth.token.get_secret_value()) < SHORT_TOKEN:
        message = f"the token is shorter than {SHORT_TOKEN} characters."
        issues.append(ConfigIssue("gateway.auth.token", message, "Remove it; a start writes one."))
    written = read.parsed.get("gateway", {}).get("auth", {}).get("mode")
    if token is TokenSource.ENVIRONMENT and written == AuthMode.NONE.value:
        message = "'none' does not count, because the environment gives a token."
        issues.append(ConfigIssue("gateway.auth.mode", message, "Remove one of the two."))
    return issues
