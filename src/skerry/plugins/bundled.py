"""Our own hooks, written as anybody's: `session-memory` and `command-logger`."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from skerry.hooks.events import BeforeReset, CommandGiven, HookEvent
from skerry.infra.atomic import make_private
from skerry.infra.clock import iso
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.ids import SessionKey
from skerry.model.message import AssistantMessage, UserMessage
from skerry.runtime.conversation import taint

LAST: Final = 15
"""Messages that are kept of a conversation."""
MAX_BYTES: Final = 256 * 1024
MAX_LOG: Final = 5 * 1024 * 1024
"""Bytes of the log of commands; then it is moved to `commands.log.1`."""
_SLUG_WORDS: Final = 5


@dataclass(frozen=True, slots=True)
class Bundled:
    """One of our own."""

    name: str
    description: str
    events: tuple[str, ...]
    handle: Callable[[HookEvent], None]


def session_memory(event: HookEvent) -> None:
    """Writes the last messages of a private conversation that begins anew to the workspace.

    The file is `memory/YYYY-MM-DD-<first words>.md`; no model is asked. A second conversation of
    that name goes behind the first. Where the conversation had words of others than the owner, the
    file is in `memory/unverified/`, which no prompt has.
    """
    ended: BeforeReset = event.payload
    messages = [
        message for message in ended.messages if isinstance(message, UserMessage | AssistantMessage)
    ]
    lines = [
        f"**{'You' if isinstance(message, UserMessage) else 'Assistant'}:** {message.text.strip()}"
        for message in messages[-LAST:]
        if message.text.strip()
    ]
    private = SessionKey.parse(ended.session_key).is_owners
    if event.workspace is None or not lines or not private:
        return
    at = datetime.fromtimestamp(event.timestamp / 1000, UTC).astimezone()
    first = next((one.text for one in messages[-LAST:] if isinstance(one, UserMessage)), "")
    head = f"# {at:%Y-%m-%d %H:%M}, {ended.session_key} ({ended.session_id})"
    text = "\n\n".join((head, *lines)) + "\n"

    def change(old: bytes | None) -> bytes:
        return (old + b"\n" if old else b"") + text.encode()

    # What others said there must not be read as the owner's notes.
    folder = "memory/unverified" if taint(ended.messages) else "memory"
    path = f"{folder}/{at:%Y-%m-%d}-{slug(first)}.md"
    RootedFolder(event.workspace).replace(path, change, max_bytes=MAX_BYTES)


def slug(text: str) -> str:
    """Returns the first words of the text as the part of a file's name, at most 40 characters."""
    words = re.findall(r"[^\W_]+", text.lower())[:_SLUG_WORDS]
    return "-".join(words)[:40].strip("-") or "conversation"


def command_logger(event: HookEvent) -> None:
    """Appends a line of JSON to `logs/commands.log` of the state directory, without arguments."""
    event_payload: CommandGiven = event.payload
    line = {
        "timestamp": iso(event.timestamp),
        "command": event_payload.name,
        "sessionKey": event_payload.session_key,
        "channel": event_payload.channel,
        "owner": event_payload.is_owner,
    }
    path = event.state_dir / "logs" / "commands.log"
    make_private(path.parent)
    if path.is_file() and path.stat().st_size > MAX_LOG:
        path.replace(path.with_name("commands.log.1"))
    _append(path, msgspec.json.encode(line) + b"\n")


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


BUNDLED: Final = (
    Bundled(
        "session-memory",
        "keeps the end of a private conversation in the workspace when it begins anew",
        ("session:reset",),
        session_memory,
    ),
    Bundled(
        "command-logger",
        "notes each command in logs/commands.log of the state directory",
        ("command",),
        command_logger,
    ),
)
