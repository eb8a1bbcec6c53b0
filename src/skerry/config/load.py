"""Finds the configuration file and makes one frozen, checked `Config` of it and the environment."""

import copy
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from skerry.config import source
from skerry.config.backup import LAST_GOOD, beside
from skerry.config.check import check
from skerry.config.expand import Expanded, expand
from skerry.config.gateway import AuthMode
from skerry.config.root import Config
from skerry.config.warnings import openings, permissions, without_effect
from skerry.config.write import Author, set_values
from skerry.model.errors import ConfigError, ConfigInvalidError, ConfigIssue, ConfigRewriteError

STATE_DIR: Final = "SKERRY_STATE_DIR"
CONFIG_PATH: Final = "SKERRY_CONFIG_PATH"
PORT: Final = "SKERRY_GATEWAY_PORT"
STRICT: Final = "SKERRY_STRICT_CONFIG"
"""Where it is set, a broken file stops the start."""
TOKENS: Final = ("SKERRY_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_TOKEN")
PASSWORDS: Final = ("SKERRY_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PASSWORD")

TOKEN_BYTES: Final = 24
"""A token that we write has twice as many hex characters."""
BY_HAND: Final = (
    f'Add gateway: {{auth: {{token: "..."}}}} with a secret of your own, or set {TOKENS[0]}.'
)
"""What helps where a token is missing and the file cannot be written anew."""


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
    expanded: Expanded
    warnings: tuple[ConfigIssue, ...]
    token_source: TokenSource
    broken: ConfigInvalidError | None = None
    """What is wrong with the file; the last good one is in force instead of it."""
    is_first: bool = False
    """Whether the token was made just now, so that its owner has not seen it."""


def locate(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the state directory and the file that the environment names, both absolute."""
    state = _path(environ, environ.get(STATE_DIR) or "~/.skerry")
    return state, _path(environ, environ.get(CONFIG_PATH) or str(state / "skerry.json"))


def load(
    environ: Mapping[str, str],
    state_dir: Path | None = None,
    path: Path | None = None,
    *,
    fetch: bool = True,
) -> Loaded:
    """Return the configuration; nothing is written. No file is the same as an empty one.

    Without `fetch`, `UNFETCHED` stands for each secret that a file or a program has.

    Of the environment `SKERRY_GATEWAY_TOKEN`, then `OPENCLAW_GATEWAY_TOKEN`, stands over
    `gateway.auth.token` and switches the mode to `token`; without them `SKERRY_GATEWAY_PASSWORD`,
    then `OPENCLAW_GATEWAY_PASSWORD`, over `gateway.auth.password` with mode `password`;
    `SKERRY_GATEWAY_PORT` over `gateway.port`. Empty variables count as absent.

    Raises:
        ConfigInvalidError: all that is wrong.
    """
    found_state, found_path = locate(environ)
    state_dir, path = state_dir or found_state, path or found_path
    return checked(source.read(path), environ, state_dir, fetch=fetch)


def checked(
    read: source.Source, environ: Mapping[str, str], state_dir: Path, *, fetch: bool = True
) -> Loaded:
    """Return the configuration that a file means, as `load` does; see `expand` for `fetch`.

    Raises:
        ConfigInvalidError: all that is wrong.
    """
    path = read.path
    expanded = expand(read, environ, fetch=fetch)
    tree, wrong = _overlay(expanded.tree, environ)
    issues = [*wrong, *expanded.issues]
    try:
        config, warnings = check(tree, state_dir=state_dir, path=path)
    except ConfigInvalidError as error:
        raise ConfigInvalidError(str(path), [*error.issues, *issues]) from None
    if issues:
        raise ConfigInvalidError(str(path), issues)
    config = config.model_copy(update={"included": expanded.files})
    token_source = _token_source(config, environ)
    given = token_source is TokenSource.ENVIRONMENT
    warnings += tuple(permissions(state_dir, read))
    warnings += tuple(openings(config, expanded.tree, from_environment=given))
    warnings += tuple(without_effect(expanded.tree))
    return Loaded(config, read, expanded, warnings, token_source)


def load_good(
    environ: Mapping[str, str],
    state_dir: Path | None = None,
    path: Path | None = None,
    *,
    fetch: bool = True,
) -> Loaded:
    """Return the configuration, or where the file is broken the last good one, with the reason.

    `SKERRY_STRICT_CONFIG` switches the second off; see `load` for `fetch`.

    Raises:
        ConfigInvalidError: all that is wrong, and there is no good one.
    """
    try:
        return load(environ, state_dir, path, fetch=fetch)
    except ConfigInvalidError as error:
        if environ.get(STRICT):
            raise
        found_state, found_path = locate(environ)
        state_dir, path = state_dir or found_state, path or found_path
        try:
            good = source.read(beside(path.resolve(), LAST_GOOD))
            good = replace(good, path=path)
            loaded = checked(good, environ, state_dir, fetch=fetch) if good.exists else None
        except ConfigInvalidError:
            loaded = None
        if loaded is None:
            raise
        return replace(loaded, broken=error)


def prepare(
    environ: Mapping[str, str], state_dir: Path | None = None, path: Path | None = None
) -> Loaded:
    """Make the state directory (0700) and a token where there is none; then `load_good`.

    Raises:
        ConfigInvalidError: all that is wrong, and there is no good one; nothing was written.
        ConfigError: the directory or the file cannot be written.
    """
    loaded = load_good(environ, state_dir, path)
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
    if loaded.broken is not None:
        raise loaded.broken
    token = secrets.token_hex(TOKEN_BYTES)
    author = Author("first start", environ, config.state_dir)
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
