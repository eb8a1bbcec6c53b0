"""Checks of the reachability, of secrets and of the log."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from skerry.config.gateway import GatewayConfig
from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.config.session import DmScope, Scope
from skerry.infra import sqlite
from skerry.infra.log import KEEP_FILES, LOGS, MAX_BYTES
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.ids import AgentId
from skerry.policy.file_records import FileRecords
from skerry.ports.checks import Check, Level
from skerry.store import DATABASE, Reader, file_records
from skerry.store.senders import strangers_in_main
from skerry.workspace.fences import fenced

MIN_DIFFERENT_CHARS: Final = 6
"""Minimum number of different characters of a secret; the configuration warns of short ones."""
_STRONGER: Final = 'skerry config set gateway.auth.{mode} "$(openssl rand -hex 24)"'


def exposure(gateway: GatewayConfig) -> Iterator[Check]:
    """Yields the reachability of the gateway."""
    if not gateway.exposed:
        yield Check("exposure", Level.OK, "only this machine can connect")
        return
    if not gateway.trusted_proxies:
        message = f"gateway.bind {gateway.bind}: traffic on the network is readable."
        remedy = (
            "Use only a trusted network; otherwise use an SSH tunnel, or a proxy with TLS"
            " and gateway.trustedProxies."
        )
        yield Check("exposure", Level.WARNING, message, remedy)
    else:
        proxies = ", ".join(gateway.trusted_proxies)
        yield Check("exposure", Level.OK, f"other machines can connect; trusted proxies: {proxies}")


def secret(gateway: GatewayConfig) -> Iterator[Check]:
    """Yields a warning when a long shared secret is easy to guess."""
    mode, text = gateway.auth.mode, gateway.auth.secret
    if text is not None and len(set(text)) < MIN_DIFFERENT_CHARS:
        level = Level.FAILURE if gateway.exposed else Level.WARNING
        message = f"the {mode} repeats few characters and is easy to guess."
        yield Check("token", level, message, _STRONGER.format(mode=mode))


def conversations(config: Config) -> Check:
    """Checks that only the owner's chats use the owner's conversation."""
    name, session = "conversations", config.session
    shared = session.dm_scope is DmScope.MAIN or session.scope is Scope.GLOBAL
    strangers = strangers_in_main(config.state_dir / DATABASE)
    remedy = (
        "Remove session.dmScope and session.scope, and name yourself in commands.ownerAllowFrom:"
        " every other sender then has a separate conversation."
    )
    if strangers:
        message = f"{strangers} chats of other people have written in main."
        return Check(
            name, Level.WARNING, message, remedy if shared else "Start a new session there: /new"
        )
    if shared:
        return Check(name, Level.OK, "all admitted senders share main, so far only the owner wrote")
    return Check(name, Level.OK, "only the owner's chats share main")


def fences(config: Config, agent: AgentId) -> Check:
    """Returns the files that a prompt of the agent includes as data, without authority."""
    name, records = "workspace files", _records(config.state_dir / DATABASE)
    fenced_files = list(fenced(config.workspace(agent), gate(config), records))
    if not fenced_files:
        return Check(name, Level.OK, f"{agent}: all files that a prompt reads count as yours.")
    listed = ", ".join(f"{file.name} ({file.doubt})" for file in fenced_files)
    message = f"{agent}: a prompt includes these as data, without authority: {listed}."
    remedy = (
        f"Read a file, then trust it: skerry files trust {fenced_files[0].name} --agent {agent}"
    )
    return Check(name, Level.WARNING, message, remedy)


def _records(file: Path) -> FileRecords:
    """Returns the records of the database; empty when it cannot be read."""
    if not file.exists():
        return FileRecords()
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            return FileRecords(file_records.every(Reader(connection)))
    except (sqlite3.Error, *UNREADABLE):
        return FileRecords()


def log(state_dir: Path) -> Check:
    """Returns the size of the log."""
    sizes = [file.stat().st_size for file in (state_dir / LOGS).glob("*") if file.is_file()]
    text = f"{len(sizes)} files, {sum(sizes) // 1024} KiB, in {state_dir / LOGS}"
    if sum(sizes) > (KEEP_FILES + 1) * MAX_BYTES:
        remedy = "Remove unneeded files; a running gateway keeps its latest 14 files."
        return Check("log", Level.WARNING, f"{text}.", remedy)
    return Check("log", Level.OK, text)
