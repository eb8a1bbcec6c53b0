"""`skerry sessions import`: takes transcript files in, checked, once, and with a report."""

import os
import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from skerry.app.build import open_state
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.config.load import load
from skerry.infra.clock import SystemClock
from skerry.infra.foreign import UNREADABLE
from skerry.model.errors import ClientError, InvalidSessionKeyError
from skerry.model.ids import AgentId, SessionId, SessionKey, agent_id
from skerry.model.session import Archived
from skerry.sessions.importing import FormatError, Imported, Report, read
from skerry.sessions.markdown import read_markdown
from skerry.store import Store
from skerry.store.importing import Incoming, Taken, take

_NAME: Final = re.compile(r".{1,255}\.jsonl(?:\.(reset|deleted)\..{1,255})?")
_LONGEST_DOCUMENT: Final = 256 * 1024 * 1024
"""Bytes of a Markdown file, which is read as a whole."""
_PROGRESS: Final = 25
"""Files between two lines that say how far it is."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one file."""

    file: str
    outcome: str
    key: str = ""
    session_id: str = ""
    report: Report | None = None


def run(arguments: Namespace) -> int:
    """Import what the arguments name; return 1 when a file could not be read."""
    return anyio.run(_import, arguments)


async def _import(arguments: Namespace) -> int:
    files = [file for path in arguments.paths for file in _files(Path(path))]
    if not files:
        error = ClientError("There is no transcript: no file ends in .jsonl.")
        error.remedy = "Name the files, or the folder agents/<agent>/sessions of an OpenClaw home."
        raise error
    if lost := [str(file) for file in files if not file.exists()]:
        error = ClientError(f"There is no {', '.join(lost)}.")
        error.remedy = "Correct the name."
        raise error
    config = load(os.environ, fetch=False).config
    agent = agent_id(arguments.agent) if arguments.agent else config.agents.default_id
    if agent not in config.agents.ids:
        raise ClientError(f"There is no agent {agent!r}: {', '.join(config.agents.ids)}.")
    outcomes = []
    async with open_state(config) as (store, mirror):
        for number, file in enumerate(files, 1):
            outcomes.append(await _one(store, file, agent, arguments))
            if number % _PROGRESS == 0:
                notice(f"{number} of {len(files)} files")
        await mirror.flush(store)
    _tell(outcomes, arguments)
    return int(any(one.report is None for one in outcomes))


async def _one(store: Store, file: Path, agent: AgentId, arguments: Namespace) -> _Outcome:
    try:
        found = await anyio.to_thread.run_sync(_read, file)
        key = _key(file, found, agent, arguments.key)
    except (FormatError, OSError, InvalidSessionKeyError) as error:
        return _Outcome(str(file), f"not imported: {error}")
    outcome = "can be imported"
    if not arguments.dry_run:
        matched = _NAME.fullmatch(file.name)
        archived = Archived(matched[1]) if matched and matched[1] else None
        incoming = Incoming(
            key, SessionId(found.session_id), found.created_at, found.messages, archived
        )
        now = SystemClock().now_ms()
        outcome = await store.write(partial(take, incoming=incoming, now=now))
    return _Outcome(str(file), str(outcome), str(key), found.session_id, found.report)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    # What was archived first is imported first, and what is present last.
    yield from sorted(one for one in path.iterdir() if one.is_file() and _NAME.fullmatch(one.name))


def transcripts(folder: Path) -> Iterator[tuple[Path, Archived | None]]:
    """Yield the transcript files of a folder, what was archived first, each with what as."""
    for file in sorted(_files(folder), key=lambda one: one.name.endswith(".jsonl")):
        matched = _NAME.fullmatch(file.name)
        if not file.is_symlink():
            yield file, Archived(matched[1]) if matched and matched[1] else None


def _read(file: Path) -> Imported:
    if file.suffix == ".md":
        if file.stat().st_size > _LONGEST_DOCUMENT:
            raise FormatError("it is too long")
        try:
            return read_markdown(file.read_bytes().decode())
        except UnicodeDecodeError as error:
            raise FormatError("it is not UTF-8") from error
    with file.open("rb") as lines:
        return read(lines)


def _key(file: Path, found: Imported, agent: AgentId, wanted: str | None) -> SessionKey:
    """Return the conversation: of the session map beside the file, as wanted, or one of its own."""
    if (known := mapped_keys(file.parent / "sessions.json").get(found.session_id)) is not None:
        key = SessionKey.parse(known, agent)
        return SessionKey(agent, key.scope)
    if wanted is not None:
        return SessionKey.parse(wanted, agent)
    return SessionKey.parse(f"imported:{found.session_id}", agent)


def mapped_keys(file: Path) -> dict[str, str]:
    """Return the key of each session that the map names."""
    try:
        found: Any = msgspec.json.decode(file.read_bytes())
    except (OSError, *UNREADABLE):
        return {}
    rows = found.items() if isinstance(found, dict) else ()
    return {
        one["sessionId"]: key
        for key, one in rows
        if isinstance(one, dict) and isinstance(one.get("sessionId"), str)
    }


def _tell(outcomes: list[_Outcome], arguments: Namespace) -> None:
    if arguments.json:
        show_json([asdict(one) for one in outcomes])
        return
    rows = [
        (Path(one.file).name, one.key, str(one.report.messages if one.report else 0), one.outcome)
        for one in outcomes
    ]
    show(table([("FILE", "KEY", "MESSAGES", "OUTCOME"), *rows]))
    for one in outcomes:
        for line in left_out(one.report) if one.report else ():
            notice(f"{Path(one.file).name}: {one_line(line)}")
    known = sum(one.outcome == Taken.KNOWN for one in outcomes)
    if known:
        notice(f"{known} of {len(outcomes)} were there already and stay as they are.")


def left_out(report: Report) -> Iterator[str]:
    """Yield what was left out of a file, and why."""
    if report.other_branch:
        yield f"{report.other_branch} entries of branches that it had left are not imported"
    for kind, number in sorted(report.left_out.items()):
        yield f"{number} {kind} left out"
    yield from broken_lines(report)


def broken_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a file that cannot be read, and why."""
    yield from report.broken
    if report.broken_lines > len(report.broken):
        yield f"{report.broken_lines - len(report.broken)} more lines cannot be read"
