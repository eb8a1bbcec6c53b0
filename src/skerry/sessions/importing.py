"""Reads transcript files of pi sessions, version 3 (pure).

Source: openclaw-behaviour 2.5. A file is a tree of lines; the imported conversation is the path
from the root to the last entry, as in pi itself. Other lines are counted in the report.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from skerry.infra.untrusted_json import DEEPEST, is_deep
from skerry.model import message
from skerry.model.message import (
    COMPACTION,
    AssistantMessage,
    CompactionMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    aborted_result,
    open_calls,
)
from skerry.model.origin import Origin

VERSION: Final = 3
SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
MAX_LINE: Final = 64 * 1024 * 1024
"""Limit in bytes; a longer line is skipped."""
NAMED: Final = 20
"""Limit on the broken lines that a report lists; the others are only counted."""
_EXTRA_LEVELS: Final = 4
"""Nesting levels of a line above the arguments of a call, which may have the depth of a model's."""
_ENVELOPE: Final = re.compile(
    r"\[(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?"
    r"(?: [A-Za-z0-9+:/_-]{1,40})?\] "
)
"""Time stamp that OpenClaw writes before the text, for the model."""
_TOO_DEEP: Final = "it is nested too deep"
_UNANSWERED: Final = "imported without an answer"


class FormatError(ValueError):
    """The file is not a readable transcript; the message is the reason."""


@dataclass(slots=True)
class TranscriptReport:
    """Result of reading the lines of one file."""

    messages: int = 0
    other_branch: int = 0
    """Number of entries on branches that the conversation does not continue."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of skipped lines by type."""
    broken: list[str] = field(default_factory=list)
    """Unreadable lines with the reason; at most 20."""
    broken_lines: int = 0

    def refuse(self, number: int, reason: str) -> None:
        """Counts an unreadable line."""
        self.broken_lines += 1
        if len(self.broken) < NAMED:
            self.broken.append(f"line {number}: {reason}")


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """One session, as read from a file."""

    session_id: str
    created_at: int
    messages: tuple[tuple[int, Message], ...]
    """(time in ms, message) of each entry."""
    report: TranscriptReport


def read(lines: Iterable[bytes]) -> ImportedSession:
    """Returns the session in the lines.

    Raises:
        FormatError: the first line is no header of a session of version 3.
    """
    numbered = enumerate(lines, 1)
    session_id, created_at = header(next(numbered, (1, b""))[1])
    report = TranscriptReport()
    entries: dict[str, _TranscriptLine] = {}
    last: str | None = None
    for number, line in numbered:
        entry = _entry(number, line, created_at, report)
        if entry is None:
            continue
        if entry.id in entries:
            report.refuse(number, f"the id {entry.id} was used before")
            continue
        entries[entry.id] = entry
        last = entry.id
    path = list(_path(entries, last))
    report.other_branch = len(entries) - len(path)
    decoded = [
        (entry, read_message)
        for entry in path
        if (read_message := _message(entry, report)) is not None
    ]
    messages = tuple(paired((entry.at, converted) for entry, converted in decoded))
    messages = tuple(_numbered(messages, decoded))
    report.messages = len(messages)
    return ImportedSession(session_id, created_at, messages, report)


def as_owners(session: ImportedSession) -> ImportedSession:
    """Returns the session with its user messages marked as the owner's."""
    messages = tuple((at, _owners(entry)) for at, entry in session.messages)
    return replace(session, messages=messages)


def _owners(entry: Message) -> Message:
    match entry:
        case UserMessage():
            return structs.replace(entry, origin=Origin.OWNER)
        case CompactionMessage():
            return structs.replace(entry, origin=None)
        case _:
            return entry


@dataclass(frozen=True, slots=True)
class _TranscriptLine:
    number: int
    id: str
    parent: str | None
    at: int
    kind: str
    message: Any
    """Message, or the whole line of a compaction."""


def header(line: bytes) -> tuple[str, int]:
    """Returns id and start of a session, in ms, from the first line of its file.

    Raises:
        FormatError: the line is not the header of a session of version 3.
    """
    try:
        record = _decoded(line)
    except FormatError:
        record = None
    if not isinstance(record, dict) or record.get("type") != "session":
        raise FormatError("its first line is not the header of a session")
    version = record.get("version", 1)
    if version != VERSION:
        raise FormatError(f"it has version {version}; open it once with a newer pi or OpenClaw")
    session_id = record.get("id")
    if not isinstance(session_id, str) or not SESSION_ID.fullmatch(session_id):
        raise FormatError("its header has no usable session id")
    return session_id, _time(record.get("timestamp")) or 0


def _entry(
    number: int, line: bytes, before: int, report: TranscriptReport
) -> _TranscriptLine | None:
    if not line.strip():
        return None
    try:
        record = _decoded(line)
    except FormatError as error:
        report.refuse(number, str(error))
        return None
    match record:
        case {"type": str(kind), "id": str(name), **rest}:
            parent = rest.get("parentId")
            at = _time(rest.get("timestamp")) or before
            return _TranscriptLine(
                number,
                name,
                parent if isinstance(parent, str) else None,
                at,
                kind,
                record if kind == "compaction" else rest.get("message"),
            )
    report.refuse(number, "it has no type or no id")
    return None


def _decoded(line: bytes) -> Any:
    """Decodes a line.

    Raises:
        FormatError: the line is too long, not JSON, or nested too deeply for other readers.
    """
    if len(line) > MAX_LINE:
        raise FormatError("it is too long")
    try:
        record = msgspec.json.decode(line)
    except ValueError:
        raise FormatError("it is not JSON") from None
    except RecursionError:
        raise FormatError(_TOO_DEEP) from None
    if is_deep(record, DEEPEST + _EXTRA_LEVELS):
        raise FormatError(_TOO_DEEP)
    return record


def _path(entries: dict[str, _TranscriptLine], last: str | None) -> Iterator[_TranscriptLine]:
    """Yields the entries from the root to the last one; a missing parent ends the path."""
    chain: dict[str, _TranscriptLine] = {}
    while last is not None and last in entries and last not in chain:
        chain[last] = entries[last]
        last = entries[last].parent
    yield from reversed(chain.values())


def _message(entry: _TranscriptLine, report: TranscriptReport) -> Message | None:
    """Returns the message of an entry; None without a valid one, which is counted in the report."""
    if entry.kind == "compaction":
        return _compaction(entry, report)
    if entry.kind != "message":
        report.left_out[entry.kind] += 1
        return None
    try:
        decoded = message.decode(msgspec.json.encode(_plain(entry.message)))
    except (msgspec.ValidationError, TypeError) as error:
        role = entry.message.get("role") if isinstance(entry.message, dict) else None
        if role in {"user", "assistant", "toolResult"}:
            report.refuse(entry.number, str(error))
        else:
            report.left_out[f"message of {role}"] += 1
        return None
    return _without_envelope(decoded) if isinstance(decoded, UserMessage) else decoded


def _compaction(entry: _TranscriptLine, report: TranscriptReport) -> CompactionMessage | None:
    """Returns the summary of a compaction; `_numbered` sets its `first_kept`."""
    summary, before = entry.message.get("summary"), entry.message.get("tokensBefore")
    if not isinstance(summary, str):
        report.refuse(entry.number, "the compaction has no summary")
        return None
    provider, name = COMPACTION
    details = entry.message.get("details")
    details = details if isinstance(details, dict) else {}
    return CompactionMessage(
        (TextBlock(summary),),
        provider,
        provider,
        name,
        Usage(),
        "stop",
        entry.at,
        origin=Origin.STRANGER,
        tokens_before=before if isinstance(before, int) and 0 <= before < 1 << 40 else 0,
        trigger="threshold",
        read_files=_texts(details.get("readFiles")),
        modified_files=_texts(details.get("modifiedFiles")),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def _numbered(
    messages: Iterable[tuple[int, Message]], decoded: list[tuple[_TranscriptLine, Message]]
) -> Iterator[tuple[int, Message]]:
    """Yields the messages, and sets `first_kept` of each summary.

    A summary with an unknown first kept entry replaces all messages before it.
    """
    listed = list(messages)
    seqs = {id(listed_message): seq for seq, (_, listed_message) in enumerate(listed, 1)}
    indexes = {entry.id: index for index, (entry, _) in enumerate(decoded)}
    lines_by_message = {id(decoded_message): entry for entry, decoded_message in decoded}
    for seq, (at, listed_message) in enumerate(listed, 1):
        if not isinstance(listed_message, CompactionMessage):
            yield at, listed_message
            continue
        line = lines_by_message[id(listed_message)]
        index = indexes.get(line.message.get("firstKeptEntryId"), len(decoded))
        kept_seqs = (seqs.get(id(following)) for _, following in decoded[index:])
        first = next((number for number in kept_seqs if number is not None), seq)
        yield at, structs.replace(listed_message, first_kept=min(first, seq))


def _without_envelope(prompt: UserMessage) -> UserMessage:
    """Returns the message without the time stamp before its text; the rest is unchanged."""
    match prompt.content:
        case (TextBlock(text=text) as first, *rest) if envelope := _ENVELOPE.match(text):
            return structs.replace(
                prompt, content=(structs.replace(first, text=text[envelope.end() :]), *rest)
            )
    return prompt


def _plain(fields: object) -> object:
    """Returns the message in the stored form, without the origin: a file must not set that."""
    if not isinstance(fields, dict):
        return fields
    stored = {name: value for name, value in fields.items() if name != "origin"}
    if isinstance(stored.get("content"), str):
        stored["content"] = [{"type": "text", "text": stored["content"]}]
    return stored


def paired(messages: Iterable[tuple[int, Message]]) -> Iterator[tuple[int, Message]]:
    """Yields the messages with a result for every call, and with an answer at the end."""
    open_: list[Message] = []
    at, last = 0, None
    for at, entry in messages:
        if isinstance(entry, CompactionMessage):
            yield at, entry
            continue
        if isinstance(entry, ToolResultMessage):
            if entry.tool_call_id not in {call.id for call in open_calls(open_)}:
                continue
        else:
            for call in open_calls(open_):
                yield at, aborted_result(call, at)
            open_ = []
        open_.append(entry)
        last = entry
        yield at, entry
    for call in open_calls(open_):
        last = aborted_result(call, at)
        yield at, last
    if isinstance(last, UserMessage | ToolResultMessage):
        yield at, AssistantMessage((), "", "", "", Usage(), "aborted", at, _UNANSWERED)


def _time(value: object) -> int | None:
    """Returns milliseconds from an ISO time or a number of milliseconds; None if invalid."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 47:
        return value
    if isinstance(value, str):
        try:
            return max(0, int(datetime.fromisoformat(value).timestamp() * 1000))
        except (ValueError, OverflowError):
            return None
    return None
