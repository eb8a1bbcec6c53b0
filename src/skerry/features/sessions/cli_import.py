"""`skerry sessions import`: imports transcript files once, after a check."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from skerry.app.build import open_state
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.cli.transcript_files import Folder, archived_as, broken_lines, files
from skerry.config.load import load
from skerry.infra.clock import SystemClock
from skerry.model.errors import ClientError, InvalidSessionKeyError
from skerry.model.ids import AgentId, SessionKey, agent_id
from skerry.sessions.importing import FormatError, ImportedSession, TranscriptReport, read
from skerry.sessions.markdown_import import read_markdown
from skerry.store import Store
from skerry.store.session_import import ImportOutcome, take

_MAX_DOCUMENT_BYTES: Final = 256 * 1024 * 1024
"""Maximum size in bytes of a Markdown file, which is read completely."""
_PROGRESS: Final = 25
"""Number of files between two progress lines."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Result for one file."""

    file: str
    outcome: str
    key: str = ""
    session_id: str = ""
    report: TranscriptReport | None = None
    mine: bool = False
    """True when its user messages count as the owner's."""


def run(arguments: Namespace) -> int:
    """Imports the named files; returns 1 when a file could not be read."""
    return anyio.run(_import, arguments)


async def _import(arguments: Namespace) -> int:
    named = [file for path in arguments.paths for file in files(Path(path))]
    if not named:
        raise ClientError(
            "No transcript found: no file ends in .jsonl.",
            "Pass the files, or the folder agents/<agent>/sessions of an OpenClaw home.",
        )
    if missing := [str(file) for file in named if not file.exists()]:
        raise ClientError(f"No such file: {', '.join(missing)}.", "Correct the path.")
    config = load(os.environ, fetch=False).config
    agent = agent_id(arguments.agent) if arguments.agent else config.agents.default_id
    if agent not in config.agents.ids:
        raise ClientError(f"Unknown agent {agent!r}.", f"Agents: {', '.join(config.agents.ids)}.")
    if arguments.key and not arguments.mine and not arguments.dry_run and sys.stdin.isatty():
        arguments.mine = _are_mine(SessionKey.parse(arguments.key, agent))
    folders = {
        fromkey: Folder.of(fromkey) for fromkey in dict.fromkeys(file.parent for file in named)
    }
    outcomes = []
    async with open_state(config) as (store, mirror):
        for number, file in enumerate(named, 1):
            outcomes.append(await _import_file(store, file, folders[file.parent], agent, arguments))
            if number % _PROGRESS == 0:
                notice(f"{number} of {len(named)} files")
        await mirror.flush(store)
    _tell(outcomes, arguments)
    return int(any(outcome.report is None for outcome in outcomes))


async def _import_file(
    store: Store, file: Path, folder: Folder, agent: AgentId, arguments: Namespace
) -> _Outcome:
    try:
        transcript = await anyio.to_thread.run_sync(_read, file)
        key = _key(transcript, folder, agent, arguments.key)
    except (FormatError, OSError, InvalidSessionKeyError) as error:
        return _Outcome(str(file), f"not imported: {error}")
    outcome = "can be imported"
    if not arguments.dry_run:
        session = folder.incoming(key, transcript, archived_as(file), is_owners=arguments.mine)
        now = SystemClock().now_ms()
        outcome = await store.write(partial(take, incoming=session, now=now))
    return _Outcome(
        str(file), str(outcome), str(key), transcript.session_id, transcript.report, arguments.mine
    )


def _are_mine(key: SessionKey) -> bool:
    """Asks the person whether the user messages are the owner's."""
    if not key.is_owners:
        return False
    notice(f"Did you write the user messages? Only then is your memory used in {key}.")
    return input("[y/N] ").strip().lower() in {"y", "yes"}


def _read(file: Path) -> ImportedSession:
    if file.suffix == ".md":
        if file.stat().st_size > _MAX_DOCUMENT_BYTES:
            raise FormatError("the file is too large")
        try:
            return read_markdown(file.read_bytes().decode())
        except UnicodeDecodeError as error:
            raise FormatError("the file is not UTF-8") from error
    with file.open("rb") as lines:
        return read(lines)


def _key(
    transcript: ImportedSession, folder: Folder, agent: AgentId, key: str | None
) -> SessionKey:
    """Returns the conversation from the session map or the arguments, or a new one."""
    named = transcript.session_id in folder.rows
    mapped = folder.keys.get(transcript.session_id) if named or key is None else None
    if mapped is not None:
        return SessionKey(agent, SessionKey.parse(mapped, agent).scope)
    return SessionKey.parse(key or f"imported:{transcript.session_id}", agent)


def _tell(outcomes: list[_Outcome], arguments: Namespace) -> None:
    if arguments.json:
        show_json([asdict(outcome) for outcome in outcomes])
        return
    rows = [
        (
            Path(outcome.file).name,
            outcome.key,
            str(outcome.report.messages if outcome.report else 0),
            outcome.outcome,
        )
        for outcome in outcomes
    ]
    show(table([("FILE", "KEY", "MESSAGES", "OUTCOME"), *rows]))
    for outcome in outcomes:
        for line in left_out(outcome.report) if outcome.report else ():
            notice(f"{Path(outcome.file).name}: {one_line(line)}")
    if any(outcome.mine for outcome in outcomes):
        notice("User messages were imported as yours: your memory is used in these conversations.")
    elif any(
        outcome.key and SessionKey.parse(outcome.key).is_owners
        for outcome in outcomes
        if outcome.outcome != ImportOutcome.ALREADY_IMPORTED
    ):
        notice(
            "User messages were imported as a stranger's, so memory is off there; if yours: --mine"
        )
    present = sum(outcome.outcome == ImportOutcome.ALREADY_IMPORTED for outcome in outcomes)
    if present:
        notice(f"{present} of {len(outcomes)} existed already and were not changed.")


def left_out(report: TranscriptReport) -> Iterator[str]:
    """Yields the skipped parts of a file, with the reasons."""
    if report.other_branch:
        yield f"{report.other_branch} entries of abandoned branches are not imported"
    for kind, number in sorted(report.left_out.items()):
        yield f"{number} {kind} left out"
    yield from broken_lines(report)
