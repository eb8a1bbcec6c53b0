"""Reads the Markdown that `skerry sessions export` writes (pure).

A document is written for people: it has speaker, text and time of each message, to the minute and
in local time. Other entries of a session cannot be imported from it, and are counted.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from skerry.model.message import AssistantMessage, Message, TextBlock, Usage, user
from skerry.sessions.importing import (
    SESSION_ID,
    FormatError,
    ImportedSession,
    TranscriptReport,
    paired,
)

PERSON: Final = "You"
NOTE: Final = "Note"
RESULT: Final = "Result of "
NO_MODEL: Final = "no model"
TIME: Final = "%Y-%m-%d %H:%M"
_SPEAKER: Final = rf"{PERSON}|{NOTE}|{RESULT}.*|Assistant \((?P<model>.*)\)"
_LINE: Final = rf"## (?P<speaker>{_SPEAKER}), (?P<at>\d{{4}}-\d\d-\d\d \d\d:\d\d)"
_HEADING: Final = re.compile(_LINE)
_LIKE_HEADING: Final = re.compile(rf"^(\\*)(?={_LINE}$)", re.MULTILINE)
_ABOUT: Final = re.compile(r"`[^`]+`, session `([^`]+)`")
_HEAD_LINES: Final = 3


def escaped(text: str) -> str:
    """Escapes the lines of a text that look like the heading of a message."""
    return _LIKE_HEADING.sub(r"\1\\", text) if "## " in text else text


def read_markdown(content: str) -> ImportedSession:
    """Returns the session in a document.

    Tool calls stay in the text as they are shown; tool results are skipped, without their calls.

    Raises:
        FormatError: the text is not such a document.
    """
    lines = [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]
    about = _ABOUT.fullmatch(lines[2]) if len(lines) >= _HEAD_LINES else None
    if about is None or not lines[0].startswith("# "):
        raise FormatError("it was not written by `skerry sessions export`")
    if not SESSION_ID.fullmatch(about[1]):
        raise FormatError("it has no usable session id")
    report = TranscriptReport()
    messages = tuple(paired(_messages(lines[_HEAD_LINES:], report)))
    report.messages = len(messages)
    return ImportedSession(about[1], messages[0][0] if messages else 0, messages, report)


def _messages(lines: list[str], report: TranscriptReport) -> Iterator[tuple[int, Message]]:
    headings = [index for index, line in enumerate(lines) if _HEADING.fullmatch(line)]
    # Each heading follows an empty line, and so does its text.
    ends = [*(heading_index - 1 for heading_index in headings[1:]), len(lines)]
    for index, end in zip(headings, ends, strict=False):  # a document may have no message
        heading = _HEADING.fullmatch(lines[index])
        at = _time(heading["at"]) if heading else None
        if heading is None or at is None:
            report.refuse(_HEAD_LINES + index + 1, "its time is not valid")
            continue
        speaker = heading["speaker"]
        text = "\n".join(_unescaped(line) for line in lines[index + 2 : end])
        if speaker.startswith(RESULT):
            report.left_out["results of tools"] += 1
        elif speaker == NOTE:
            report.left_out["notes"] += 1
        elif not text:
            report.left_out["messages without words"] += 1
        elif speaker == PERSON:
            yield at, user(text, at)
        else:
            model = "" if heading["model"] == NO_MODEL else heading["model"]
            yield at, AssistantMessage((TextBlock(text),), "", "", model, Usage(), "stop", at)


def _unescaped(line: str) -> str:
    return line[1:] if line.startswith("\\") and _LIKE_HEADING.match(line) else line


def _time(text: str) -> int | None:
    try:
        return max(0, int(datetime.strptime(text, TIME).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None
