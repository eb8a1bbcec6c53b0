"""Tables of the state database that contain words of people and are searched by an erasure."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.infra.features import FEATURES
from skerry.model.ids import AgentId
from skerry.model.redaction import MARK, Redaction
from skerry.store.redaction_counts import RedactionCounts

_COPY: Final = re.compile(r"[/\\\\](?:in|out)bound[/\\\\]([0-9a-f]{16}-[\w.-]+)")
"""Path of a copied file, in a line of a message or in the row of an outbox part."""


class TextTable(Struct, frozen=True):
    """A table with text, and the condition for the rows of an agent."""

    name: str
    keys: tuple[str, ...]
    texts: tuple[str, ...]
    """Columns of JSON (BLOB) or plain text."""
    owner: str
    """SQL condition with the agent as `?`; `TRUE` for rows that belong to no agent."""
    count: Callable[[Sequence[str]], RedactionCounts]
    """Function that counts one row, from its keys and texts."""
    fields: tuple[str, ...] = ()
    """JSON fields with words of people; empty if any field may have some."""
    dropped: tuple[str, ...] = ()
    """JSON fields that are removed together with the words, such as their hash."""

    @property
    def columns(self) -> str:
        """Returns the columns for a SELECT."""
        return ", ".join((*self.keys, *self.texts))

    @property
    def named(self) -> str:
        """Returns the condition that selects one row by its keys."""
        return " AND ".join(f"{name} = ?" for name in self.keys if name != "kind")

    @property
    def changed(self) -> str:
        """Returns the assignments of an UPDATE."""
        return ", ".join(f"{name} = ?" for name in self.texts)

    def owned(self, agent: AgentId | None) -> str:
        """Returns the condition for the rows of an agent; None is every agent."""
        return "TRUE" if agent is None else self.owner

    def key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the keys of a selected row."""
        return row[: len(self.keys)]

    def counted(self, row: tuple[Any, ...]) -> RedactionCounts:
        """Returns the count of a row."""
        return self.count(row)

    def redacted(self, stored: bytes | str | None, redaction: Redaction) -> bytes | str | None:
        """Returns the text or JSON without the statements; the same object if it has none."""
        if stored is None:
            return None
        if isinstance(stored, str):
            return redaction.text(stored) if redaction.may_be_in(stored) else stored
        if not redaction.may_be_in(stored.decode("utf-8", "replace")):
            return stored
        value = msgspec.json.decode(stored)
        new = self._within(value, redaction) if self.fields else redaction.value(value)
        return stored if new == value else msgspec.json.encode(_without_images(new))

    def _within(self, value: Any, redaction: Redaction) -> Any:
        """Returns the value with its `fields` redacted; all others are unchanged."""
        if not isinstance(value, dict):
            return value
        new = {
            key: redaction.value(field) if key in self.fields else self._within(field, redaction)
            for key, field in value.items()
        }
        if new == value:
            return value
        return {key: field for key, field in new.items() if key not in self.dropped}


def copies(texts: Sequence[bytes | str | None]) -> set[str]:
    """Returns the names of the copied files in the columns of a row."""
    read = (text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts)
    return {name for text in read if text and "bound" in text for name in _COPY.findall(text)}


def _without_images(value: Any) -> Any:
    """Returns a message or a request without its images, which are erased with its words."""
    if not isinstance(value, dict):
        return value
    if value.get("images"):
        value = value | {"images": []}
    content = value.get("content")
    if isinstance(content, list):
        blocks = [
            block
            for block in content
            if not (isinstance(block, dict) and block.get("type") == "image")
        ]
        if len(blocks) < len(content):
            value = value | {"content": blocks or [{"type": "text", "text": MARK}]}
    return value


def _entry(row: Sequence[Any]) -> RedactionCounts:
    summary = row[2] is not None
    return RedactionCounts(entries=not summary, summaries=summary, sessions=(row[0],))


def _record(_row: Sequence[str]) -> RedactionCounts:
    return RedactionCounts(records=1)


def _label(row: Sequence[Any]) -> RedactionCounts:
    return RedactionCounts(labels=1, sessions=(row[0],))


_OF_SESSION: Final = "session_id IN (SELECT session_id FROM session WHERE agent_id = ?)"
_KERNEL_TABLES: Final = (
    TextTable("entry", ("session_id", "seq", "kind"), ("body",), _OF_SESSION, _entry),
    TextTable(
        "run",
        ("serial",),
        ("request", "partial", "result"),
        _OF_SESSION,
        lambda _: RedactionCounts(runs=1),
    ),
    TextTable(
        "outbox",
        ("serial",),
        ("text", "error", "more"),
        # A part without a run, sent by a client or a schedule, belongs to no agent: it is included.
        "NOT EXISTS (SELECT 1 FROM run JOIN session USING (session_id)"
        " WHERE run.run_id = outbox.run_id AND agent_id <> ?)",
        lambda _: RedactionCounts(replies=1),
    ),
    # An approval, and its request in a chat, have no column with the agent either.
    TextTable(
        "approval",
        ("approval_id",),
        ("call", "subject", "outcome"),
        "TRUE",
        lambda _: RedactionCounts(approvals=1),
    ),
    TextTable(
        "allowlist",
        ("agent", "pattern"),
        ("last_command", "last_path"),
        "agent IN (?, '*')",
        lambda _: RedactionCounts(approvals=1),
    ),
    TextTable("audit", ("seq",), ("body",), "TRUE", lambda _: RedactionCounts(approvals=1)),
    # These rows have no column with the agent: equal text is erased for all agents.
    TextTable("answered", ("serial",), ("answer",), "TRUE", lambda _: RedactionCounts(answers=1)),
    TextTable("session", ("session_id",), ("label",), "agent_id = ?", _label),
    TextTable(
        "pairing_request",
        ("channel", "account", "sender_id"),
        ("sender_name", "sender_username"),
        "TRUE",
        _record,
    ),
    TextTable(
        "paired_sender",
        ("channel", "account", "sender_id"),
        ("sender_name", "sender_username"),
        "TRUE",
        _record,
    ),
    TextTable("held_message", ("serial",), ("body",), "TRUE", lambda _: RedactionCounts(runs=1)),
    TextTable(
        "group_message", ("serial",), ("sender", "text"), "TRUE", lambda _: RedactionCounts(runs=1)
    ),
    TextTable(
        "frozen_text",
        ("digest",),
        ("text",),
        "digest IN (SELECT digest FROM frozen_part JOIN session USING (session_id)"
        " WHERE agent_id = ?)",
        lambda _: RedactionCounts(prompts=1),
    ),
    TextTable(
        "frozen_note",
        ("session_id", "seq"),
        ("text",),
        _OF_SESSION,
        lambda _: RedactionCounts(prompts=1),
    ),
)


@cache
def tables() -> tuple[TextTable, ...]:
    """Returns the tables of the kernel, then those of the features (`tables.TEXTS` of each)."""
    feature_tables = [
        TextTable(name, keys, texts, owner, _record, words, dropped)
        for feature in FEATURES
        if feature.tables
        for (name, keys, texts, owner), (words, dropped) in feature.load("tables:TEXTS")
    ]
    return (*_KERNEL_TABLES, *feature_tables)
