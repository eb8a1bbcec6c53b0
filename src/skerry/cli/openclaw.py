"""`skerry import openclaw`: brings an installation of OpenClaw over; a dry run unless told to."""

import os
import sqlite3
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from skerry.app.auth import Entered, Keeper
from skerry.app.build import open_state
from skerry.auth.profiles import SECRETS, Kind, is_id
from skerry.cli.imports import left_out, mapped_keys, transcripts
from skerry.cli.render import notice, one_line, show, show_json
from skerry.config import source
from skerry.config.expand import expand
from skerry.config.gateway import LOCK
from skerry.config.load import Loaded, load, locate
from skerry.config.openclaw import Mapped, Unmapped, mapped, merged
from skerry.config.root import Config
from skerry.config.write import Author, rewrite
from skerry.infra.atomic import make_private
from skerry.infra.clock import SystemClock
from skerry.infra.copying import Copied, copy_tree
from skerry.infra.foreign import UNREADABLE
from skerry.infra.lock import owner
from skerry.model.errors import ClientError, CredentialError, InvalidSessionKeyError
from skerry.model.ids import AgentId, SessionId, SessionKey, agent_id
from skerry.model.session import Archived
from skerry.sessions.importing import FormatError, Imported, read
from skerry.store import openclaw as database
from skerry.store.importing import Incoming, take

_BY: Final = "skerry import openclaw"
_PROGRESS: Final = 25
_HANDLED: Final = frozenset({"openclaw.json", "agents"})
_REPAIR: Final = "repair it with OpenClaw, or by `.recover` of sqlite3, and import again"
_LOST: Final = "its credentials cannot be read"
_ENTER: Final = "enter them anew: skerry auth add PROVIDER"
_WHY: Final = {
    "canvas": "it has no place here yet",
    "credentials": "what let people in on channels; they pair anew",
    "cron": "schedules have no place here yet",
    "devices": "clients pair anew with this gateway",
    "exec-approvals.json": "commands are approved anew",
    "identity": "keys of a device; this gateway has its own",
    "logs": "logs",
    "memory": "an index, which is made anew of the files in the workspaces",
    "state": "what the other gateway keeps for itself",
}


@dataclass(slots=True)
class _Report:
    """What was, or would be, brought over."""

    source: str
    applied: bool
    configuration: list[str] = field(default_factory=list)
    """Sections taken over."""
    kept: list[str] = field(default_factory=list)
    """Places where ours says something else, which counts."""
    workspaces: list[dict[str, Any]] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)
    """By what became of them."""
    credentials: list[str] = field(default_factory=list)
    """By name."""
    unmapped: list[Unmapped] = field(default_factory=list)

    def leave(self, what: str, why: str) -> None:
        """Note something that has no place here."""
        self.unmapped.append(Unmapped(what, why))

    def leave_out(self, what: str, made: Imported) -> None:
        """Note which entries of a session are not taken."""
        for why in left_out(made.report):
            self.leave(what, why)

    def count(self, outcome: str) -> None:
        """Count a session."""
        self.sessions[outcome] = self.sessions.get(outcome, 0) + 1


def run(arguments: Namespace) -> int:
    """Bring over what is in the directory; return the exit code.

    Raises:
        ClientError: there is no such installation, or a gateway runs here.
    """
    home = Path(arguments.directory).expanduser().absolute()
    file = home / "openclaw.json"
    if not file.is_file() and not (home / "agents").is_dir():
        error = ClientError(f"{home} is no home of OpenClaw: it has no openclaw.json, no agents.")
        error.remedy = "Name it: skerry import openclaw DIR"
        raise error
    state_dir, _ = locate(os.environ)
    running = owner(state_dir / LOCK)
    if running is not None:
        error = ClientError(f"A gateway runs on {state_dir} (process {running.pid}).")
        error.remedy = "Stop it first: what it has in use cannot be replaced under it."
        raise error
    report = _Report(str(home), applied=arguments.apply)
    theirs = expand(source.read(file), os.environ).merged
    found = mapped(theirs)
    loaded = _configuration(found, report)
    _workspaces(home, theirs, loaded.config, report)
    _credentials(home, loaded, report)
    anyio.run(_sessions, home, loaded.config, report)
    for one in sorted(home.iterdir()):
        if one.name not in _HANDLED and not one.name.startswith(
            (".", "workspace", "openclaw.json.")
        ):
            report.leave(one.name, _WHY.get(one.name, "it has no place here"))
    _tell(report, as_json=arguments.json)
    return 0


def _configuration(found: Mapped, report: _Report) -> Loaded:
    """Write what both configurations say; return what holds then, or would hold."""
    state_dir, path = locate(os.environ)
    report.unmapped += found.unmapped
    both, report.kept = merged(source.read(path).parsed, found.tree)
    report.configuration = sorted(found.tree)
    if report.applied and both != source.read(path).parsed:
        make_private(state_dir)
        make_private(path.parent)
        rewrite(
            path,
            lambda now, _: merged(now.parsed, found.tree)[0],
            Author(_BY, os.environ, state_dir),
        )
    if report.applied:
        return load(os.environ)
    return _would_be(both, state_dir, path)


def _would_be(tree: dict[str, Any], state_dir: Path, path: Path) -> Loaded:
    from skerry.config.load import checked  # noqa: PLC0415 - a dry run only

    made = source.Source(path, msgspec.json.encode(tree).decode(), tree, 0o600)
    return checked(made, os.environ, state_dir, fetch=False)


def _agents(home: Path) -> list[tuple[AgentId, Path]]:
    folder = home / "agents"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [(agent_id(one.name), one) for one in found if one.is_dir() and not one.is_symlink()]


def _workspaces(home: Path, theirs: dict[str, Any], config: Config, report: _Report) -> None:
    listed = theirs.get("agents", {})
    defaults = listed.get("defaults", {}) if isinstance(listed, dict) else {}
    own = {
        agent_id(str(one.get("id"))): one.get("workspace")
        for one in (listed.get("list") or () if isinstance(listed, dict) else ())
        if isinstance(one, dict)
    }
    for agent in config.agents.ids:
        configured = own.get(agent)
        is_default = agent == config.agents.default_id
        if configured is None and is_default:
            configured = defaults.get("workspace")
        name = "workspace" if is_default else f"workspace-{agent}"
        there = Path(configured).expanduser() if isinstance(configured, str) else home / name
        if not there.is_dir():
            continue
        done = copy_tree(there, config.workspace(agent), write=report.applied)
        report.workspaces.append({"agent": agent, "from": str(there), **_counts(done)})
        for what, why in done.refused:
            report.leave(str(there / what), why)


def _counts(done: Copied) -> dict[str, int]:
    return {"copied": done.copied, "same": done.same, "bytes": done.bytes}


def _credentials(home: Path, loaded: Loaded, report: _Report) -> None:
    for agent, folder in _agents(home):
        if agent not in loaded.config.agents.ids:
            continue
        keeper = Keeper(loaded.config, loaded.expanded.environ, agent)
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
                report.leave(f"credential {label}", str(error))


def _profiles(folder: Path, report: _Report) -> dict[str, Any]:
    """Return the profiles of an agent, from the file or the database."""
    content: Any = {}
    try:
        if (folder / database.FILE).is_file():
            with database.opened(folder / database.FILE) as opened:
                content = database.profiles(opened)
        file = folder / "auth-profiles.json"
        if not content and file.is_file() and not file.is_symlink():
            content = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        report.leave(str(folder), f"{_LOST}: {error.strerror}")
    except sqlite3.Error as error:
        report.leave(str(folder / database.FILE), f"{_LOST}: {error}; {_REPAIR}")
    except UNREADABLE:  # the text of the error may have a part of a secret
        report.leave(str(folder), f"{_LOST}: they are not JSON; {_ENTER}")
    found = content.get("profiles") if isinstance(content, dict) else None
    return found if isinstance(found, dict) else {}


def _entered(name: str, entry: Any) -> Entered:
    """Return the credential as somebody would enter it.

    Raises:
        CredentialError: it is none of ours.
    """
    match entry:
        case {"type": "api_key" | "token" | "oauth" as kind, "provider": str(provider)}:
            wanted = SECRETS[Kind(kind)]
        case _:
            raise CredentialError("its kind is not known here.")
    secrets = {one: entry[one] for one in wanted if isinstance(entry.get(one), str)}
    owner_, _, label = name.partition(":")
    if len(secrets) != len(wanted) or not is_id(name) or owner_ != provider:
        raise CredentialError("a secret of it is missing, or its name is not known here.")
    more = {one: entry[one] for one in ("expires", "email", "accountId") if one in entry}
    return Entered(provider, label, Kind(kind), secrets, more)


async def _sessions(home: Path, config: Config, report: _Report) -> None:
    found = list(_transcripts(home, config, report))
    if not report.applied:
        for _ in found:
            report.count("can be imported")
        return
    async with open_state(config) as (store, mirror):
        for number, incoming in enumerate(found, 1):
            now = SystemClock().now_ms()
            report.count(str(await store.write(partial(take, incoming=incoming, now=now))))
            if number % _PROGRESS == 0:
                notice(f"{number} of {len(found)} sessions")
        await mirror.flush(store)


def _transcripts(home: Path, config: Config, report: _Report) -> Iterator[Incoming]:
    """Yield every session, what was archived before what is present."""
    for agent, folder in _agents(home):
        if agent not in config.agents.ids:
            report.leave(f"agents/{folder.name}", "the configuration names no such agent")
            continue
        yield from _files(agent, folder / "sessions", report)
        file = folder / "agent" / database.FILE
        if file.is_file() and not file.is_symlink():
            yield from _stored(agent, file, report)


def _files(agent: AgentId, folder: Path, report: _Report) -> Iterator[Incoming]:
    keys = mapped_keys(folder / "sessions.json")
    for file, archived in transcripts(folder) if folder.is_dir() else ():
        try:
            with file.open("rb") as lines:
                made = read(lines)
            key = keys.get(made.session_id, f"imported:{made.session_id}")
            report.leave_out(str(file), made)
            yield _incoming(agent, key, made, archived)
        except (FormatError, OSError, InvalidSessionKeyError) as error:
            report.leave(str(file), f"{error}")


def _stored(agent: AgentId, file: Path, report: _Report) -> Iterator[Incoming]:
    try:
        with database.opened(file) as opened:
            for one in database.sessions(opened):
                if one.damage:
                    report.leave(f"session {one.session_id}", f"{one.damage}; {_REPAIR}")
                    continue
                if one.packed:
                    why = f"{one.packed} of its lines are packed; export it with OpenClaw first"
                    report.leave(f"session {one.session_id}", why)
                    continue
                archived = None if one.present else Archived.RESET
                try:
                    made = read(one.lines)
                    report.leave_out(f"session {one.session_id}", made)
                    yield _incoming(agent, one.key, made, archived)
                except (FormatError, InvalidSessionKeyError) as error:
                    report.leave(f"session {one.session_id}", str(error))
    except OSError as error:
        report.leave(str(file), f"it cannot be read: {error.strerror}")
    except sqlite3.Error as error:
        report.leave(str(file), f"it cannot be read: {error}; {_REPAIR}")


def _incoming(agent: AgentId, key: str, made: Imported, archived: Archived | None) -> Incoming:
    scope = SessionKey.parse(key, agent).scope
    session_id = SessionId(made.session_id)
    return Incoming(SessionKey(agent, scope), session_id, made.created_at, made.messages, archived)


def _tell(report: _Report, *, as_json: bool) -> None:
    if as_json:
        show_json(asdict(report))
        return
    show(f"configuration  {', '.join(report.configuration) or 'nothing'}")
    for one in report.workspaces:
        numbers = f"{one['copied']} files, {one['bytes']} bytes; {one['same']} are there already"
        show(f"workspace      {one['agent']}: {numbers}")
    counted = ", ".join(f"{number} {outcome}" for outcome, number in report.sessions.items())
    show(f"sessions       {counted or 'none'}")
    show(f"credentials    {one_line(', '.join(report.credentials)) or 'none'}")
    for place in report.kept:
        notice(f"{one_line(place)}: yours is kept")
    for left in report.unmapped:
        notice(f"not taken over: {one_line(left.what)}: {one_line(left.why)}")
    if not report.applied:
        notice("Nothing was written: skerry import openclaw --apply")
