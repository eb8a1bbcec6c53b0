"""`skerry import openclaw`: imports an installation of OpenClaw; only previews without --apply."""

import os
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from skerry.app.build import open_state
from skerry.app.credential_files import Entered, Keeper
from skerry.auth.profiles import SECRETS, CredentialKind, is_id
from skerry.cli.render import notice, one_line
from skerry.config import source
from skerry.config.expand import expand
from skerry.config.gateway import LOCK
from skerry.config.load import Loaded, checked, load, locate
from skerry.config.paths import MISSING, KeyPath, lookup, replaced
from skerry.config.root import Config
from skerry.config.write import ConfigAuthor, rewrite
from skerry.features.openclaw import imported_files as openclaw_files
from skerry.features.openclaw.allowlist_import import Patterns
from skerry.features.openclaw.home import agents, inside, is_home, jobs, name_the_rest, not_imported
from skerry.features.openclaw.imported_sessions import REPAIR, Arriving
from skerry.features.openclaw.mapping import fitting, mapped, merged
from skerry.features.openclaw.proposal import (
    KeyOutcome,
    ProposedKey,
    ProviderDefaults,
    accepted_tree,
    sorted_out,
)
from skerry.features.openclaw.report import Report, tell
from skerry.infra.atomic import make_private
from skerry.infra.clock import SystemClock
from skerry.infra.lock import owner
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import ClientError, CredentialError
from skerry.providers.builtin_providers import known_provider
from skerry.sdk.features import registered
from skerry.sdk.importing import Importer
from skerry.store import openclaw_databases as database
from skerry.workspace.prompt_files import BOOT, HEARTBEAT

_BY: Final = "skerry import openclaw"
_UNREADABLE_CREDENTIALS: Final = "its credentials cannot be read"
_ENTER: Final = "enter them again with skerry auth add PROVIDER"
_ACTING: Final = {
    BOOT: ("hooks", "internal", "entries", "boot-md", "enabled"),
    HEARTBEAT: ("agents", "defaults", "heartbeat", "every"),
}
"""Files that make an agent act by itself, each with the key by which a person agrees to it."""
_ASSUMED: Final[dict[str, Any]] = {BOOT: True, HEARTBEAT: "30m"}
"""Value of the key that OpenClaw assumes where the file exists and the key is not set."""


def run(arguments: Namespace) -> int:
    """Imports the directory; returns the exit code.

    Raises:
        ClientError: the directory is no installation, or a gateway uses the state directory.
    """
    home = Path(arguments.directory).expanduser().absolute()
    file = home / "openclaw.json"
    if not is_home(home):
        raise ClientError(
            f"{home} is not a home of OpenClaw: no openclaw.json, agents or workspace in it.",
            "Name the home: skerry import openclaw DIR",
        )
    state_dir, _ = locate(os.environ)
    running = owner(state_dir / LOCK)
    if running is not None:
        raise ClientError(
            f"A gateway uses {state_dir} (process {running.pid}).",
            "Stop it first: an import replaces files that a running gateway uses.",
        )
    report = Report(str(home), applied=arguments.apply)
    foreign = expand(source.read(file), os.environ).merged
    report.not_imported += not_imported(home, foreign)
    patterns = Patterns(home, report)
    loaded, workspaces = _configuration(home, foreign, arguments, report, patterns)
    acting = openclaw_files.acting(home, foreign)
    withheld = {name for name in acting if not _is_agreed(_ACTING[name], report.lines)}
    openclaw_files.copy(workspaces, loaded.config, report, withheld)
    _credentials(home, loaded, report)
    anyio.run(Arriving(home, loaded.config, report, arguments.mine).bring)
    anyio.run(_jobs, home, loaded, report)
    if report.applied:
        agreed = [line for line in report.lines if line.outcome is KeyOutcome.ACCEPTED]
        anyio.run(patterns.bring, loaded.config, agreed)
    name_the_rest(home, {workspace.path for workspace in workspaces}, report)
    tell(report, as_json=arguments.json)
    return 0


def _configuration(
    home: Path, foreign: dict[str, Any], arguments: Namespace, report: Report, patterns: Patterns
) -> tuple[Loaded, list[openclaw_files.Workspace]]:
    """Writes the accepted keys; returns the configuration, or its preview, and the workspaces.

    Raises:
        ClientError: `--yes-to` names a key that needs no consent.
    """
    state_dir, path = locate(os.environ)
    mapping = mapped(foreign)
    report.unmapped += mapping.unmapped
    current = source.read(path).parsed
    tree = patterns.with_modes(mapping.tree)
    tree = _with_acting(home, foreign, tree)

    def sort(
        yes: set[str],
    ) -> tuple[list[ProposedKey], dict[str, Any], list[openclaw_files.Workspace]]:
        lines = _against(current, tree, sorted_out(tree, _catalogue, yes))
        accepted, unfit = fitting(accepted_tree(tree, lines))
        combined = merged(current, accepted)[0]
        config = _would_be(combined, state_dir, path).config
        workspaces = openclaw_files.find(home, foreign, config, yes)
        boot_lines = [workspace.line for workspace in workspaces if workspace.line is not None]
        report.unmapped += [key for key in unfit if key not in report.unmapped]
        return [*lines, *boot_lines, *patterns.lines(config, yes)], accepted, workspaces

    yes = set(arguments.yes_to)
    lines, _, _ = sort(set())
    open_lines = [line for line in lines if line.outcome is KeyOutcome.NEEDS_CONSENT]
    _check(yes, open_lines)
    if report.applied and not arguments.json and sys.stdin.isatty():
        yes |= _ask([line for line in open_lines if line.key not in yes])
    report.lines, accepted, workspaces = sort(yes)
    combined = merged(current, accepted)[0]
    if not report.applied:
        return _would_be(combined, state_dir, path), workspaces
    make_private(state_dir)
    if combined != current:
        make_private(path.parent)
        author = ConfigAuthor(_BY, os.environ, state_dir)
        rewrite(path, lambda now, _: merged(now.parsed, accepted)[0], author)
    return load(os.environ, fetch=False), workspaces


def _with_acting(home: Path, foreign: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """Returns the tree with the keys that OpenClaw assumes where such a file exists."""
    for name in openclaw_files.acting(home, foreign):
        if lookup(tree, _ACTING[name]) is MISSING:
            tree = replaced(tree, _ACTING[name], _ASSUMED[name])
    return tree


def _is_agreed(key_path: KeyPath, lines: Iterable[ProposedKey]) -> bool:
    return any(line.key_path == key_path and line.outcome is KeyOutcome.ACCEPTED for line in lines)


def _against(
    current: dict[str, Any], tree: dict[str, Any], lines: list[ProposedKey]
) -> list[ProposedKey]:
    """Returns the lines after a comparison with the present configuration, whose values win."""
    conflicts = merged(current, tree)[1]
    sorted_lines = []
    for line in lines:
        present = lookup(current, line.key_path)
        if any(line.key == key or line.key.startswith((f"{key}.", f"{key}[")) for key in conflicts):
            sorted_lines.append(replace(line, outcome=KeyOutcome.CURRENT_KEPT, reason=""))
        elif present is not MISSING and present == lookup(tree, line.key_path):
            sorted_lines.append(replace(line, outcome=KeyOutcome.ACCEPTED))
        else:
            sorted_lines.append(line)
    return sorted_lines


def _catalogue(name: str) -> ProviderDefaults | None:
    provider = known_provider(name)
    return None if provider is None else ProviderDefaults(provider.base_url, provider.variables)


def _check(yes: Iterable[str], lines: list[ProposedKey]) -> None:
    keys = [line.key for line in lines]
    if unasked := [key for key in yes if key not in keys]:
        raise ClientError(
            f"No consent is needed for {', '.join(unasked)}.",
            f"Keys that need your consent: {', '.join(keys) or 'none'}.",
        )


def _ask(lines: list[ProposedKey]) -> set[str]:
    """Returns the keys that the person at the terminal agrees to."""
    agreed = set()
    for line in lines:
        notice(one_line(f"{line.key} = {line.value}: {line.reason}"))
        if input("Import it? [y/N] ").strip().lower() in {"y", "yes"}:
            agreed.add(line.key)
    return agreed


def _would_be(tree: dict[str, Any], state_dir: Path, path: Path) -> Loaded:
    candidate = source.Source(path, msgspec.json.encode(tree).decode(), tree, 0o600)
    return checked(candidate, os.environ, state_dir, fetch=False)


def _importer(config: Config) -> Importer:
    make = registered().imports["cron"]()
    importer: Importer = make(config.agents.ids, config.agents.default_id, SystemClock().now_ms())
    return importer


async def _jobs(home: Path, loaded: Loaded, report: Report) -> None:
    """Imports the scheduled jobs, each switched off."""
    importer = _importer(loaded.config)
    importer.read(jobs(home, report))
    report.jobs += importer.names
    for name, reason in importer.refused:
        report.skip(f"cron job {name}", reason)
    for name in importer.changed:
        report.skip(
            f"receiver of cron job {name}", "the reply goes to the chat of your latest message"
        )
    if report.applied and importer.names:
        async with open_state(loaded.config) as (store, _):
            await store.write(importer.store)


def _credentials(home: Path, loaded: Loaded, report: Report) -> None:
    for agent, folder in agents(home):
        if agent not in loaded.config.agents.ids:
            continue
        keeper = Keeper(loaded.config, loaded.expanded.environ, agent)
        if not inside(home, folder / "agent"):
            continue  # the import of sessions reports it
        for name, entry in _profiles(folder / "agent", report).items():
            label = f"{agent}/{name}"
            try:
                entered = _entered(name, entry)
                if name not in keeper.profiles().profiles:
                    keeper.provider(entered.provider)
                    if report.applied:
                        keeper.keep(entered, SystemClock())
                report.credentials.append(label)
            except CredentialError as error:
                report.skip(f"credential {label}", str(error))


def _profiles(folder: Path, report: Report) -> dict[str, Any]:
    """Returns the profiles of an agent, from the file or the database."""
    content: Any = {}
    try:
        if (folder / database.FILE).is_file():
            with database.opened(folder / database.FILE) as opened:
                content = database.profiles(opened)
        file = folder / "auth-profiles.json"
        if not content and file.is_file() and not file.is_symlink():
            content = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        report.skip(str(folder), f"{_UNREADABLE_CREDENTIALS}: {error.strerror}")
    except sqlite3.Error as error:
        report.skip(str(folder / database.FILE), f"{_UNREADABLE_CREDENTIALS}: {error}; {REPAIR}")
    except UNREADABLE:  # the error text may contain a part of a secret
        report.skip(str(folder), f"{_UNREADABLE_CREDENTIALS}: they are not JSON; {_ENTER}")
    profiles = content.get("profiles") if isinstance(content, dict) else None
    return profiles if isinstance(profiles, dict) else {}


def _entered(name: str, entry: Any) -> Entered:
    """Returns the credential in the form in which a person enters it.

    Raises:
        CredentialError: this gateway does not support the credential.
    """
    match entry:
        case {"type": "api_key" | "token" | "oauth" as kind, "provider": str(provider)}:
            fields = SECRETS[CredentialKind(kind)]
        case _:
            raise CredentialError("this gateway does not support its kind.")
    secrets = {name: entry[name] for name in fields if isinstance(entry.get(name), str)}
    owner_, _, label = name.partition(":")
    if len(secrets) != len(fields) or not is_id(name) or owner_ != provider:
        raise CredentialError("a secret is missing, or its provider is unknown here.")
    details = {name: entry[name] for name in ("expires", "email", "accountId") if name in entry}
    return Entered(provider, label, CredentialKind(kind), secrets, details)
