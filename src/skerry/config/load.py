"""Finds the configuration file, and builds a checked `Config` from it and the environment."""

import copy
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from skerry.config import source
from skerry.config.backup import LAST_GOOD, copy_path
from skerry.config.check import check
from skerry.config.expand import Expanded, expand
from skerry.config.gateway import AuthMode
from skerry.config.root import Config
from skerry.config.warnings import openings, permissions, without_effect
from skerry.config.write import ConfigAuthor, set_values
from skerry.model.errors import ConfigError, ConfigInvalidError, ConfigIssue, ConfigRewriteError

STATE_DIR: Final = "SKERRY_STATE_DIR"
CONFIG_PATH: Final = "SKERRY_CONFIG_PATH"
PORT: Final = "SKERRY_GATEWAY_PORT"
STRICT: Final = "SKERRY_STRICT_CONFIG"
"""Environment variable that makes a broken configuration file stop the start."""
TOKENS: Final = ("SKERRY_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_TOKEN")
PASSWORDS: Final = ("SKERRY_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PASSWORD")

TOKEN_BYTES: Final = 24
"""Random bytes of a generated token, which has twice as many hexadecimal characters."""
BY_HAND: Final = (
    f'Add gateway: {{auth: {{token: "..."}}}} with a secret of your own, or set {TOKENS[0]}.'
)
"""Remedy if a token is missing and the file cannot be rewritten."""


class TokenSource(StrEnum):
    """Origin of the gateway's token."""

    ENVIRONMENT = "environment"
    FILE = "file"
    NONE = "none"
    """There is no token: the mode is `none`, or no gateway has started yet."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, its file, the warnings, and the source of the token."""

    config: Config
    source: source.Source
    expanded: Expanded
    warnings: tuple[ConfigIssue, ...]
    token_source: TokenSource
    broken: ConfigInvalidError | None = None
    """Errors of the file; if set, the configuration is that of the last good file."""
    is_first: bool = False
    """True if this load generated the token, so that the owner has not seen it yet."""


def locate(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Returns the state directory and the configuration file by the environment, both absolute."""
    state = _path(environ, environ.get(STATE_DIR) or "~/.skerry")
    return state, _path(environ, environ.get(CONFIG_PATH) or str(state / "skerry.json"))


def load(
    environ: Mapping[str, str],
    state_dir: Path | None = None,
    path: Path | None = None,
    *,
    fetch: bool = True,
) -> Loaded:
    """Returns the configuration; writes nothing. A missing file is the same as an empty one.

    Without `fetch`, each secret from a file or a program is replaced by `UNFETCHED`.

    Variables of the environment override the file; empty ones are ignored:
    `SKERRY_GATEWAY_TOKEN`, then `OPENCLAW_GATEWAY_TOKEN`, sets `gateway.auth.token` and the mode
    `token`; without them `SKERRY_GATEWAY_PASSWORD`, then `OPENCLAW_GATEWAY_PASSWORD`, sets
    `gateway.auth.password` and the mode `password`; `SKERRY_GATEWAY_PORT` sets `gateway.port`.

    Raises:
        ConfigInvalidError: the file is not valid; it has all issues.
    """
    found_state, found_path = locate(environ)
    state_dir, path = state_dir or found_state, path or found_path
    return checked(source.read(path), environ, state_dir, fetch=fetch)


def checked(
    read: source.Source, environ: Mapping[str, str], state_dir: Path, *, fetch: bool = True
) -> Loaded:
    """Returns the configuration of a file that was read, as `load`; see `expand` for `fetch`.

    Raises:
        ConfigInvalidError: the file is not valid; it has all issues.
    """
    path = read.path
    expanded = expand(read, environ, fetch=fetch)
    tree, env_issues = _overlay(expanded.tree, environ)
    issues = [*env_issues, *expanded.issues]
    try:
        config, warnings = check(tree, state_dir=state_dir, path=path)
    except ConfigInvalidError as error:
        raise ConfigInvalidError(str(path), [*error.issues, *issues]) from None
    if issues:
        raise ConfigInvalidError(str(path), issues)
    config = config.model_copy(update={"included": expanded.files})
    token_source = _token_source(config, environ)
    from_environment = token_source is TokenSource.ENVIRONMENT
    warnings += tuple(permissions(state_dir, read))
    warnings += tuple(openings(config, expanded.tree, from_environment=from_environment))
    warnings += tuple(without_effect(expanded.tree))
    return Loaded(config, read, expanded, warnings, token_source)


def load_good(
    environ: Mapping[str, str],
    state_dir: Path | None = None,
    path: Path | None = None,
    *,
    fetch: bool = True,
) -> Loaded:
    """Returns the configuration; if the file is not valid, that of the last good file.

    Then `broken` has the errors. `SKERRY_STRICT_CONFIG` disables the last good file; see `load` for
    `fetch`.

    Raises:
        ConfigInvalidError: the file is not valid, and there is no last good file.
    """
    try:
        return load(environ, state_dir, path, fetch=fetch)
    except ConfigInvalidError as error:
        if environ.get(STRICT):
            raise
        found_state, found_path = locate(environ)
        state_dir, path = state_dir or found_state, path or found_path
        try:
            last_good = source.read(copy_path(path.resolve(), LAST_GOOD))
            last_good = replace(last_good, path=path)
            loaded = (
                checked(last_good, environ, state_dir, fetch=fetch) if last_good.exists else None
            )
        except ConfigInvalidError:
            loaded = None
        if loaded is None:
            raise
        return replace(loaded, broken=error)


def prepare(
    environ: Mapping[str, str], state_dir: Path | None = None, path: Path | None = None
) -> Loaded:
    """Creates the state directory (0700) and a token if they are missing, then calls `load_good`.

    Raises:
        ConfigInvalidError: the file is not valid and there is no last good file; nothing was
            written.
        ConfigError: the directory or the file cannot be written.
    """
    loaded = load_good(environ, state_dir, path)
    config = loaded.config
    try:
        config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        failure = ConfigError(f"{config.state_dir} cannot be created: {error.strerror}.")
        failure.remedy = f"Set {STATE_DIR} to a directory that you can write to."
        raise failure from error
    if config.gateway.auth.mode is not AuthMode.TOKEN or config.gateway.auth.token is not None:
        return loaded
    if loaded.broken is not None:
        raise loaded.broken
    token = secrets.token_hex(TOKEN_BYTES)
    author = ConfigAuthor("first start", environ, config.state_dir)
    try:
        set_values(config.path, {"gateway.auth.token": token}, keep=True, author=author)
    except ConfigRewriteError as error:
        error.remedy = BY_HAND
        raise
    return replace(load(environ, state_dir, path), is_first=True)


def _path(environ: Mapping[str, str], text: str) -> Path:
    if text == "~" or text.startswith("~/"):
        home = environ.get("HOME")
        return (Path(home) if home else Path.home()) / text[2:]
    return Path(text).absolute()


def _overlay(
    parsed: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[ConfigIssue]]:
    """Returns the tree with the values of the environment, and the issues of the environment."""
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
    """Returns the token in the environment, or an empty text."""
    return next((text for name in TOKENS if (text := environ.get(name, "").strip())), "")


def given_password(environ: Mapping[str, str]) -> str:
    """Returns the password in the environment, or an empty text."""
    return next((text for name in PASSWORDS if (text := environ.get(name, "").strip())), "")


def _token_source(config: Config, environ: Mapping[str, str]) -> TokenSource:
    if given_token(environ):
        return TokenSource.ENVIRONMENT
    return TokenSource.FILE if config.gateway.auth.token is not None else TokenSource.NONE
