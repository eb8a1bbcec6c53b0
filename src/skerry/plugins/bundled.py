"""The bundled hooks `session-memory` and `command-logger`."""

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
"""Number of messages that are kept of a conversation."""
MAX_BYTES: Final = 256 * 1024
MAX_LOG: Final = 5 * 1024 * 1024
"""Size of the log of commands, in bytes, from which it is moved to `commands.log.1`."""
_SLUG_WORDS: Final = 5


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundled hook."""

    name: str
    description: str
    events: tuple[str, ...]
    handle: Callable[[HookEvent], None]


def session_memory(event: HookEvent) -> None:
    """Writes the last messages of a private conversation to the workspace when it is reset.

    The file is `memory/YYYY-MM-DD-<first words>.md`; no model is called. A second conversation with
    that name is appended. When the conversation contains untrusted text, the file is in
    `memory/unverified/`, which no prompt includes.
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
    first = next(
        (message.text for message in messages[-LAST:] if isinstance(message, UserMessage)), ""
    )
    head = f"# {at:%Y-%m-%d %H:%M}, {ended.session_key} ({ended.session_id})"
    text = "\n\n".join((head, *lines)) + "\n"

    def change(old: bytes | None) -> bytes:
        return (old + b"\n" if old else b"") + text.encode()

    # Untrusted text must not be read as notes of the owner.
    folder = "memory/unverified" if taint(ended.messages) else "memory"
    path = f"{folder}/{at:%Y-%m-%d}-{slug(first)}.md"
    RootedFolder(event.workspace).replace(path, change, max_bytes=MAX_BYTES)


def slug(text: str) -> str:
    """Returns the first words of the text as part of a file name, at most 40 characters."""
    words = re.findall(r"[^\W_]+", text.lower())[:_SLUG_WORDS]
    return "-".join(words)[:40].strip("-") or "conversation"


def command_logger(event: HookEvent) -> None:
    """Appends a line of JSON to `logs/commands.log` in the state directory, without arguments."""
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
