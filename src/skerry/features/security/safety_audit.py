"""Finds settings and file modes that expose an installation, each with a remedy."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pydantic import SecretStr
from pydantic.alias_generators import to_camel

from skerry.config.channels import DEFAULT, ChannelAccount
from skerry.config.gateway import AuthMode
from skerry.config.root import Config
from skerry.config.secret_values import UNFETCHED
from skerry.config.session import DmScope
from skerry.policy.channel_access import DmPolicy, GroupPolicy

if TYPE_CHECKING:
    from skerry.config.exec import AgentExec
    from skerry.config.tools import ElevatedConfig

CRITICAL: Final = "critical"
WARN: Final = "warn"
MAX_FILES: Final = 100_000


class AuditFinding(Struct, frozen=True):
    """One finding of the audit."""

    id: str
    severity: str
    """`critical` or `warn`."""
    message: str
    remedy: str
    path: str = ""
    """File whose mode is too open; empty for a setting."""


def audit(config: Config, *, deep: bool = False) -> list[AuditFinding]:
    """Returns the findings, critical ones first; `deep` checks every file of the state."""
    findings = [
        *_gateway(config),
        *_channels(config),
        *_tools(config),
        *_files(config, deep=deep),
    ]
    return sorted(findings, key=lambda finding: finding.severity != CRITICAL)


def _gateway(config: Config) -> Iterator[AuditFinding]:
    gateway = config.gateway
    if gateway.auth.mode is AuthMode.NONE:
        yield AuditFinding(
            "gateway.auth-none",
            CRITICAL,
            "gateway.auth.mode is none: every program on this machine can control the agents",
            "skerry config set gateway.auth.mode token",
        )
    if str(gateway.bind) != "loopback":
        yield AuditFinding(
            "gateway.bind",
            WARN,
            f"gateway.bind is {gateway.bind}: other machines can reach the gateway",
            "skerry config set gateway.bind loopback",
        )
    if gateway.control_ui.dangerously_disable_device_auth:
        yield AuditFinding(
            "gateway.device-auth-off",
            CRITICAL,
            "the shared secret is enough for other machines to connect",
            "skerry config unset gateway.controlUi.dangerouslyDisableDeviceAuth",
        )


def _channels(config: Config) -> Iterator[AuditFinding]:
    if config.session.dm_scope is DmScope.MAIN:
        yield AuditFinding(
            "session.dm-scope-main",
            CRITICAL,
            "session.dmScope is main: all senders who may write share the owner's conversation",
            "skerry config unset session.dmScope",
        )
    secrets: dict[str, str] = {}
    for channel, section in config.channels.items():
        for name, account in section.connected().items():
            path = f"channels.{channel}"
            path += "" if name == DEFAULT else f".accounts.{name}"
            yield from _access(path, account, may_act=bool(config.tools.guests.granted))
            for key, token in _tokens(account):
                first = secrets.setdefault(token, f"{path}.{key}")
                if first != f"{path}.{key}":
                    yield AuditFinding(
                        "channels.shared-token",
                        WARN,
                        f"{path}.{key} is the same as {first}: both accounts get each message once",
                        "Use a separate bot for each account",
                    )


def _access(path: str, account: ChannelAccount, *, may_act: bool) -> Iterator[AuditFinding]:
    severity = CRITICAL if may_act else WARN
    if account.dm_policy is DmPolicy.OPEN:
        yield AuditFinding(
            "channels.dm-open",
            severity,
            f"{path}.dmPolicy is open: every sender may write to the agent",
            f"skerry config set {path}.dmPolicy pairing",
        )
    if account.group_policy is GroupPolicy.OPEN:
        yield AuditFinding(
            "channels.groups-open",
            severity,
            f"{path}.groupPolicy is open: the agent reads every group that it is added to",
            f"skerry config set {path}.groupPolicy allowlist",
        )


def _tokens(account: ChannelAccount) -> Iterator[tuple[str, str]]:
    """Yields the secrets of an account with their keys."""
    for name in type(account).model_fields:
        value = getattr(account, name)
        if isinstance(value, SecretStr) and value.get_secret_value() not in {"", UNFETCHED}:
            yield to_camel(name), value.get_secret_value()


def _tools(config: Config) -> Iterator[AuditFinding]:
    scopes: list[tuple[str, ElevatedConfig | None, AgentExec]] = [
        ("tools", config.tools.elevated, config.tools.exec)
    ]
    scopes += [
        (f"agents.list[{index}].tools", agent.tools.elevated, agent.tools.exec)
        for index, agent in enumerate(config.agents.list)
        if agent.tools is not None
    ]
    if config.agents.defaults.sandbox.mode == "off":
        yield AuditFinding(
            "sandbox.off",
            WARN,
            "agents.defaults.sandbox.mode is off: commands run on this machine",
            "skerry config set agents.defaults.sandbox.mode all",
        )
    for path, elevated, commands in scopes:
        for channel, senders in (elevated.allow_from if elevated else {}).items():
            if "*" in senders:
                yield AuditFinding(
                    "tools.elevated-everybody",
                    CRITICAL,
                    f"{path}.elevated.allowFrom.{channel} lists every sender",
                    f"List the ids of senders in {path}.elevated.allowFrom.{channel}",
                )
        if commands.host in {"gateway", "node"}:
            severity = CRITICAL if commands.security == "full" else WARN
            yield AuditFinding(
                "tools.exec-host",
                severity,
                f"{path}.exec.host is {commands.host}: commands run outside the sandbox",
                f"skerry config set {path}.exec.host sandbox",
            )
    opened = sorted(
        {"exec", "process", "write", "edit", "apply_patch"} & config.tools.guests.granted
    )
    if opened:
        yield AuditFinding(
            "tools.guests",
            CRITICAL if "exec" in opened else WARN,
            f"all senders who may write may use {', '.join(opened)}",
            "Remove them from tools.guests.allow",
        )


def _files(config: Config, *, deep: bool) -> Iterator[AuditFinding]:
    paths = [config.state_dir, config.path, *config.included]
    if deep:
        paths += _state_files(config.state_dir)
    for path in dict.fromkeys(paths):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except OSError:
            continue
        if not path.is_symlink() and mode & 0o077:
            private_mode = mode & 0o700
            yield AuditFinding(
                "files.mode",
                CRITICAL if path in {config.state_dir, config.path} else WARN,
                f"others can reach {path} (mode {mode:04o})",
                f"chmod {private_mode:04o} {path}",
                str(path),
            )


def _state_files(root: Path) -> list[Path]:
    """Returns the files and directories of the state, without those of workspaces."""
    paths: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith("workspace")]
        paths += [Path(folder, name) for name in (*folders, *names)]
        if len(paths) > MAX_FILES:
            break
    return paths


def fix(finding: AuditFinding) -> bool:
    """Corrects the mode of a file; returns true when it changed."""
    if not finding.path:
        return False
    path = Path(finding.path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o700)
    finally:
        os.close(descriptor)
    return True
