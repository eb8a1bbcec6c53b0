"""Warnings about a valid configuration: file permissions, and settings that give access."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from skerry.config.gateway import AuthMode
from skerry.config.redact import redact
from skerry.config.root import Config
from skerry.config.source import Source
from skerry.model.errors import ConfigIssue

SHORT_TOKEN: Final = 24
"""Characters of a token below which there is a warning."""
SHORT_PASSWORD: Final = 12
"""Characters of a password below which there is a warning."""
_IDLE: Final = MappingProxyType(
    {
        "mainKey": "it has no effect: the owner's conversation is always `main`.",
        "store": "it has no effect: the files are always below the state directory.",
    }
)


def permissions(state_dir: Path, read: Source) -> list[ConfigIssue]:
    """Returns warnings if other users can read the file or the state directory."""
    issues = []
    holds_secrets = redact(read.parsed) != read.parsed
    if holds_secrets and read.mode is not None and read.mode & 0o077:
        message = f"others can read its secrets (mode {read.mode:04o})."
        issues.append(ConfigIssue(str(read.path), message, f"Run: chmod 600 {read.path}"))
    if state_dir.is_dir() and (mode := state_dir.stat().st_mode & 0o777) & 0o077:
        message = f"others can read it (mode {mode:04o})."
        issues.append(ConfigIssue(str(state_dir), message, f"Run: chmod 700 {state_dir}"))
    return issues


def without_effect(file_tree: Mapping[str, Any]) -> list[ConfigIssue]:
    """Returns warnings about keys of the format that have no effect in Skerry."""
    session = file_tree.get("session")
    section = session if isinstance(session, dict) else {}
    return [
        ConfigIssue(f"session.{key}", message, "Remove it.")
        for key, message in _IDLE.items()
        if key in section
    ]


def openings(
    config: Config, file_tree: Mapping[str, Any], *, from_environment: bool
) -> list[ConfigIssue]:
    """Returns warnings about settings that give access.

    `file_tree` is the tree of the file, before variables of the environment override it.
    """
    auth = config.gateway.auth
    if auth.mode is AuthMode.NONE:
        message = "every program and web page on this machine can control the agents."
        return [ConfigIssue("gateway.auth.mode", message, "Set it to 'token'.")]
    issues = []
    if config.gateway.control_ui.dangerously_disable_device_auth:
        key_path = "gateway.controlUi.dangerouslyDisableDeviceAuth"
        message = "the shared secret alone admits clients on other machines."
        issues.append(ConfigIssue(key_path, message, "Remove it, and approve each device."))
    if auth.mode is AuthMode.PASSWORD and not auth.secret:
        message = "it is missing, and the gateway does not start without it."
        remedy = "Set it, or SKERRY_GATEWAY_PASSWORD for the gateway."
        issues.append(ConfigIssue("gateway.auth.password", message, remedy))
    elif auth.mode is AuthMode.PASSWORD and len(auth.secret or "") < SHORT_PASSWORD:
        message = f"the password is shorter than {SHORT_PASSWORD} characters."
        issues.append(ConfigIssue("gateway.auth.password", message, "Choose a longer one."))
    if auth.token is not None and len(auth.token.get_secret_value()) < SHORT_TOKEN:
        message = f"the token is shorter than {SHORT_TOKEN} characters."
        issues.append(ConfigIssue("gateway.auth.token", message, "Remove it; a start writes one."))
    mode = file_tree.get("gateway", {}).get("auth", {}).get("mode")
    if from_environment and mode == AuthMode.NONE.value:
        message = "'none' has no effect, because the environment has a token."
        issues.append(ConfigIssue("gateway.auth.mode", message, "Remove one of the two."))
    return issues
