"""Lists, addresses and stops sub-agents, for the methods and `/subagents`."""

import secrets
from functools import partial
from typing import Any, Final

from msgspec import Struct

from skerry.features.subagents import tables
from skerry.features.subagents.spawn import prompt
from skerry.features.subagents.tables import Subagent, SubagentState
from skerry.features.subagents.watch import KILLED
from skerry.model.errors import RequestError
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import AssistantMessage, ToolResultMessage, UserMessage
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import Purpose, RunRequest, RunResult
from skerry.model.session import SessionEntry
from skerry.runtime.dispatcher import Dispatch
from skerry.store import Reader, sessions
from skerry.store.mirror import transcript_file

DAY_MS: Final = 86_400_000
MAX_ROWS: Final = 200
WAIT_SECONDS: Final = 30.0
"""Maximum seconds for which a message to a sub-agent waits for the answer."""
_MIN_PREFIX: Final = 4
"""Minimum length of the beginning of an id that names a sub-agent."""
_TASK_CHARS: Final = 120
_ENTRY_CHARS: Final = 2000


class UnknownSubagentError(RequestError):
    """No sub-agent has the name, or several have."""

    code = "subagents.unknown"


class Row(Struct, frozen=True):
    """A sub-agent with the facts of its session."""

    subagent: Subagent
    session: SessionEntry | None
    task: str
    """Beginning of its task; empty without a transcript."""


class Control(Struct, frozen=True):
    """Access to the sub-agents of a gateway."""

    dispatcher: Dispatch

    async def rows(self, parent: str | None = None, days: float = 1.0) -> list[Row]:
        """Returns the running sub-agents and those started in the last days, latest first.

        Args:
            parent: Key of the conversation that started them; None selects all.
            days: Days to look back.

        """
        runtime = self.dispatcher.runtime
        since = runtime.clock.now_ms() - int(days * DAY_MS)
        return await runtime.store.read(partial(_rows, parent, since))

    async def find(self, target: str, parent: str | None = None) -> Row:
        """Returns the sub-agent with this number in the list, id, key or label.

        Raises:
            UnknownSubagentError: no sub-agent has the name, or several have it.
        """
        rows = await self.rows(parent, 30)
        word = target.strip().lstrip("#")
        if word.isdigit() and 0 < int(word) <= len(rows):
            return rows[int(word) - 1]
        named = [row for row in rows if _is_named(row.subagent, word)]
        if len(named) == 1:
            return named[0]
        problem = "Several sub-agents have" if named else "No sub-agent has"
        ids = ", ".join(_short(row.subagent) for row in rows[:10]) or "none"
        error = UnknownSubagentError(f"{problem} the name {target!r}. Ids: {ids}.")
        error.remedy = "List the ids: skerry subagents list. The beginning of an id is enough."
        raise error

    def kill(self, subagent: Subagent) -> bool:
        """Stops a sub-agent and its sub-agents; returns true when one was running."""
        return bool(self.dispatcher.abort(subagent.key, None, KILLED))

    async def send(self, row: Row, text: str) -> RunResult | None:
        """Sends the owner's message to a sub-agent; returns the result of the answering turn.

        Returns None after `WAIT_SECONDS`.
        """
        subagent, config = row.subagent, self.dispatcher.runtime.config()
        parent = subagent.request
        request = RunRequest(
            RunId(f"subagent-send-{secrets.token_hex(8)}"),
            subagent.key,
            text,
            extra_system_prompt=prompt(config, parent.key, subagent.key, subagent.label),
            origin=Origin.OWNER,
            purpose=Purpose.SUBAGENT,
            rights=Rights.OWNER,
            parent=parent.parent,
        )
        await self.dispatcher.submit(request)
        return await self.dispatcher.wait(request.run_id, WAIT_SECONDS)

    async def log(self, subagent: Subagent, limit: int) -> list[dict[str, Any]]:
        """Returns the last messages of its session: role, text, called tools."""
        read = partial(sessions.entries, session_id=subagent.session_id, limit=limit)
        entries = await self.dispatcher.runtime.store.read(read)
        return [message for entry in entries if (message := _entry(entry.message))]

    def as_json(self, row: Row) -> dict[str, Any]:
        """Returns a sub-agent in the form of the methods."""
        subagent, session = row.subagent, row.session
        folder = self.dispatcher.runtime.config().state_dir / "agents"
        runs = self.dispatcher.active(subagent.key)
        status = subagent.status
        if subagent.state is SubagentState.RUNNING:
            status = tables.SubagentOutcome.NONE
        row_json: dict[str, Any] = {
            "runId": subagent.run_id,
            "key": subagent.session_key,
            "parentKey": subagent.parent_key,
            "label": subagent.label or None,
            "task": row.task,
            "state": subagent.state,
            "status": status or None,
            "active": bool(runs),
            "cleanup": subagent.cleanup,
            "createdAtMs": subagent.created_at,
            "endedAtMs": subagent.ended_at or None,
            "archiveAtMs": subagent.archive_at or None,
        }
        if session is not None:
            row_json |= {
                "model": session.settings.model,
                "inputTokens": session.input_tokens,
                "outputTokens": session.output_tokens,
                "transcript": str(transcript_file(folder, session)),
            }
        return row_json


def children(rows: list[Row], key: SessionKey) -> list[Row]:
    """Returns the rows of the sub-agents that a conversation started."""
    return [row for row in rows if row.subagent.parent_key == str(key)]


def _rows(parent: str | None, since: int, reader: Reader) -> list[Row]:
    rows = []
    for subagent in tables.listed(reader, parent, since, MAX_ROWS):
        first = sessions.entries(reader, subagent.session_id, limit=1, before=2)
        text = first[0].message.text if first else ""
        words = " ".join(text.split())
        task = words if len(words) <= _TASK_CHARS else words[: _TASK_CHARS - 1] + "\u2026"
        rows.append(Row(subagent, sessions.get(reader, subagent.session_id), task))
    return rows


def _short(subagent: Subagent) -> str:
    return subagent.key.scope[-1][:8]


def _is_named(subagent: Subagent, word: str) -> bool:
    if word in {subagent.run_id, subagent.session_key} or (word and word == subagent.label):
        return True
    return len(word) >= _MIN_PREFIX and subagent.key.scope[-1].startswith(word.lower())


def _entry(message: object) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            role, text, calls = "user", message.text, []
        case AssistantMessage():
            role, text, calls = "assistant", message.text, [c.name for c in message.tool_calls]
        case ToolResultMessage():
            role, text, calls = "tool", message.text, [message.tool_name]
        case _:
            return None
    if len(text) > _ENTRY_CHARS:
        text = text[:_ENTRY_CHARS] + "\u2026"
    return {"role": role, "text": text, **({"tools": calls} if calls else {})}
