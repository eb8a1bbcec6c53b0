"""Reads whole conversations from a gateway and writes them as text, JSONL or Markdown."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from skerry.cli.render import one_line, plain
from skerry.client.client import GatewayClient
from skerry.model.errors import ClientError
from skerry.sessions import markdown_import

PAGE: Final = 1000
_SHORT: Final = 200
"""Maximum length of a printed tool result, in characters."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation's session, with every message, oldest first."""

    key: str
    session_id: str
    title: str
    created_at: int
    cwd: str
    messages: list[dict[str, Any]]


async def find(client: GatewayClient, name: str, agent: str | None) -> tuple[str, str | None]:
    """Returns the key of the conversation with this key, label or session id, and its archived id.

    Raises:
        ClientError: no conversation matches.
    """
    for kind in ("key", "sessionId", "label"):
        params = {kind: name, "allowMissing": True} | ({"agentId": agent} if agent else {})
        answer = await client.request("sessions.resolve", params)
        if answer.get("ok"):
            return answer["key"], None
    row = await find_archived(client, name, agent)
    return row["key"], row["sessionId"]


async def find_archived(client: GatewayClient, name: str, agent: str | None) -> dict[str, Any]:
    """Returns the row of the last archived session with this id, key or label.

    Raises:
        ClientError: no session matches.
    """
    params = {"archived": True, "search": name} | ({"agentId": agent} if agent else {})
    rows = (await client.request("sessions.list", params))["sessions"]
    matches = [
        row
        for row in rows
        if row["sessionId"].startswith(name)
        or name in {row["key"], row["displayName"], row.get("label")}
    ]
    if matches:
        latest: dict[str, Any] = max(matches, key=lambda row: row["archivedAt"])
        return latest
    raise ClientError(
        f"No conversation is named {name!r}.",
        "List conversations: skerry sessions list; restorable ones with --archived",
    )


async def read(client: GatewayClient, key: str, session_id: str | None) -> Transcript:
    """Returns the whole conversation; it may include messages that arrive meanwhile."""
    params: dict[str, Any] = {"sessionKey": key, "limit": PAGE}
    if session_id is not None:
        params["sessionId"] = session_id
    by_seq: dict[int, dict[str, Any]] = {}
    offset: int | None = 0
    page: dict[str, Any] = {}
    while offset is not None:
        page = await client.request("chat.history", params | {"offset": offset})
        by_seq |= {message["__openclaw"]["seq"]: message for message in page["messages"]}
        offset = page.get("nextOffset")
    agents = await client.request("agents.list")
    about = page.get("sessionInfo") or {}
    folders = {entry["id"]: entry.get("workspace", "") for entry in agents["agents"]}
    return Transcript(
        key=page["sessionKey"],
        session_id=page["sessionId"] or "",
        title=about.get("label") or about.get("displayName", ""),
        created_at=about.get("createdAt", 0),
        cwd=folders.get(agents["defaultId"], ""),
        messages=[by_seq[seq] for seq in sorted(by_seq)],
    )


def as_jsonl(transcript: Transcript) -> Iterator[str]:
    """Yields the lines of a pi session of version 3, like the mirror's file."""
    yield _compact(
        {
            "type": "session",
            "version": 3,
            "id": transcript.session_id,
            "timestamp": _iso(transcript.created_at),
            "cwd": transcript.cwd,
        }
    )
    parent = None
    for message in transcript.messages:
        about = message["__openclaw"]
        head = {
            "id": about["id"],
            "parentId": parent,
            "timestamp": _iso(about["recordTimestampMs"]),
        }
        if about.get("kind") == "compaction":
            yield _compact({"type": "compaction", **head, **about["compaction"]})
        else:
            body = {
                name: value
                for name, value in message.items()
                if name not in {"__openclaw", "idempotencyKey"}
            }
            yield _compact({"type": "message", **head, "message": body})
        parent = about["id"]


def as_markdown(transcript: Transcript) -> Iterator[str]:
    """Yields the lines of a Markdown document, with tool results in code blocks."""
    yield f"# {one_line(transcript.title) or transcript.key}"
    yield ""
    yield f"`{transcript.key}`, session `{transcript.session_id}`"
    for message in transcript.messages:
        if _is_silent(message):
            continue
        yield ""
        yield f"## {_author(message)}, {_local(message['timestamp'])}"
        for kind, text in _parts(message):
            yield ""
            if kind == "text":
                yield markdown_import.escaped(plain(text))
            else:
                fence = "`" * (3 + _longest_run(text))
                escaped = markdown_import.escaped(plain(text))
                yield f"{fence}{'json' if kind == 'call' else ''}\n{escaped}\n{fence}"


def as_text(transcript: Transcript) -> Iterator[str]:
    """Yields the lines for a terminal, with shortened tool results."""
    for message in transcript.messages:
        if _is_silent(message):
            continue
        yield f"{_author(message)}, {_local(message['timestamp'])}"
        for kind, text in _parts(message):
            body = plain(text) if kind == "text" else one_line(text)
            if kind == "result" and len(body) > _SHORT:
                body = body[:_SHORT] + "…"
            yield "\n".join(f"  {line}" for line in body.splitlines())
        yield ""


def _parts(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the parts of a message: (`text`, `thinking`, `call` or `result`, text)."""
    is_result = message.get("role") == "toolResult"
    for block in message.get("content", ()):
        match block:
            case {"type": "text", "text": str(text)}:
                yield "result" if is_result else "text", text
            case {"type": "thinking", "thinking": str(text)} if text:
                yield "text", f"(thinking) {text}"
            case {"type": "toolCall", "name": name, "arguments": arguments}:
                yield "call", f"{name} {json.dumps(arguments, ensure_ascii=False)}"
            case {"type": "image", "mimeType": kind}:
                yield "text", f"(an image, {kind})"
    if problem := message.get("errorMessage"):
        yield "text", f"({problem})"


def _is_silent(message: dict[str, Any]) -> bool:
    """Returns true when an answer is empty, as with NO_REPLY."""
    return message.get("role") == "assistant" and next(_parts(message), None) is None


def _author(message: dict[str, Any]) -> str:
    match message.get("role"):
        case "user":
            return markdown_import.PERSON
        case "toolResult":
            return f"{markdown_import.RESULT}{one_line(message.get('toolName', 'a tool'))}"
        case "system":
            return markdown_import.NOTE
        case _:
            return f"Assistant ({one_line(message.get('model') or markdown_import.NO_MODEL)})"


def _longest_run(text: str) -> int:
    """Returns the longest run of backticks in the text, at least two."""
    longest = max((len(run) for run in text.split() if set(run) == {"`"}), default=0)
    return max(0, longest - 2)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _iso(milliseconds: int) -> str:
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _local(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone():{markdown_import.TIME}}"
