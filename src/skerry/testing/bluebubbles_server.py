"""Strict BlueBubbles server on loopback: a Mac with its database of messages, and its people."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import anyio
import msgspec

from skerry.testing.http_server import ServedRequest, ServedResponse, UploadedFile, serve
from skerry.testing.posting import EventPoster

PASSWORD: Final = "bluebubbles fake"  # noqa: S105 - of no Mac
_API: Final = "/api/v1/"
_TAPBACKS: Final = {"love", "like", "dislike", "laugh", "emphasize", "question"}
_TEXT: Final = {"chatGuid", "tempGuid", "message", "method", "selectedMessageGuid"}
_FILE: Final = {"chatGuid", "tempGuid", "name", "method", "isAudioMessage", "attachment"}
_QUERY: Final = {"with", "where", "sort", "limit", "offset", "chatGuid"}
_MAX_PAGE: Final = 1000
_STATEMENTS: Final = ("message.ROWID > :row", "message.ROWID <= :end")
_GROUP: Final = 43
_DIRECT: Final = 45


@dataclass(slots=True)
class BlueBubblesServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block, and posts each webhook once to `poster.url`."""

    root: str = ""
    """Address for `apiRoot`; set inside the block."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Messages of the database, in the format of the API."""
    private_api: bool = True
    typed: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    reactions: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Invalid requests, which BlueBubbles would refuse."""
    planned: list[tuple[ServedResponse, bool]] = field(default_factory=list)
    """Responses to the next messages; with True the message is sent before."""
    looks: list[ServedResponse] = field(default_factory=list)
    """Responses to the next queries for messages."""
    files: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Names of the address book, by address."""
    locked: bool = False
    poster: EventPoster = field(default_factory=lambda: EventPoster(repeats=False))
    now: int = 4_000_000_000_000
    """Time of the next message, in milliseconds."""
    sends: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the sent messages, in order."""
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle) as address, self.poster:
            self.root = address
            yield self

    # Actions of people.

    def say(
        self, text: str, *, chat: str = "iMessage;-;+491701", sender: str = "+491701", **fields: Any
    ) -> str:
        """Sends a message from a person; returns its id."""
        row = self.add(chat, text, handle={"address": sender}, **fields)
        self.tell("new-message", row)
        return str(row["guid"])

    def edit(self, guid: str, text: str) -> None:
        """Edits a message as a person."""
        (row,) = [row for row in self.rows if row["guid"] == guid]
        self.now += 1
        row.update(text=text, dateEdited=self.now)
        self.tell("updated-message", row)

    def add(self, chat: str, text: str | None, **fields: Any) -> dict[str, Any]:
        """Adds a row to the database."""
        self.now += 1
        number = len(self.rows) + 2
        style = _GROUP if ";+;" in chat else _DIRECT
        row = {
            "originalROWID": number,
            "guid": f"GUID-{number}",
            "text": text,
            "handle": None,
            "attachments": [],
            "chats": [{"guid": chat, "style": style, "displayName": "Team" * (style == _GROUP)}],
            "dateCreated": self.now,
            "dateEdited": None,
            "isFromMe": False,
            "itemType": 0,
            "associatedMessageType": None,
            "threadOriginatorGuid": None,
            "error": 0,
            **fields,
        }
        self.rows.append(row)
        self._wake()
        return row

    def tell(self, kind: str, row: dict[str, Any]) -> None:
        """Posts a webhook."""
        if self.poster.url:
            body = msgspec.json.encode({"type": kind, "data": row})
            self.poster.add(body, {"content-type": "application/json"})

    def fail(self, status: int, message: str = "no", error: int | None = None) -> None:
        """Refuses the next message."""
        data = None if error is None else {"guid": "x", "error": error}
        body = {"status": status, "message": message, "error": {"message": "no"}, "data": data}
        self.planned.append((ServedResponse.of(body, status), False))

    async def wait_for(self, count: int) -> list[str]:
        """Waits until people have received `count` messages; returns their texts."""
        with anyio.fail_after(60):
            while len(self.texts) < count:
                await self._changed.wait()
        return self.texts

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Returns the messages of the Mac's owner."""
        return [row for row in self.rows if row["isFromMe"]]

    @property
    def texts(self) -> list[str]:
        """Returns the texts that people have received."""
        return [row["text"] or "" for row in self.sent]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # Requests of the gateway.

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        if self.locked or request.query.get("password") != PASSWORD:
            return _failed(401, "You are not authorized to access this resource")
        path = request.path.removeprefix(_API)
        return self._get(path) if request.method == "GET" else self._answer(path, request)

    def _answer(self, path: str, request: ServedRequest) -> ServedResponse:
        match path.split("/"):
            case ["message", "query"]:
                answer = self.looks.pop(0) if self.looks else self._query(request.json)
            case ["message", "text" | "attachment" as kind]:
                answer = self._send(kind, request)
            case ["message", "react"]:
                answer = self._react(request.json)
            case ["chat", chat, "typing" | "read" as act] if self.private_api:
                (self.typed if act == "typing" else self.read).append(chat)
                answer = _success(None)
            case ["contact", "query"]:
                name = self.names.get(request.json["addresses"][0])
                answer = _success([{"displayName": name}] if name else [])
            case _:
                answer = self._fault(f"{request.method} {path}")
        return answer

    def _get(self, path: str) -> ServedResponse:
        match path.split("/"):
            case ["server", "info"]:
                about = {"private_api": self.private_api, "helper_connected": self.private_api}
                return _success(
                    {"server_version": "1.9", "detected_imessage": "mac@x.example", **about}
                )
            case ["message", guid]:
                matches = [row for row in self.rows if row["guid"] == guid]
                return _success(matches[0]) if matches else _failed(404, "Message does not exist!")
            case ["attachment", guid, "download"]:
                data = self.files.get(guid)
                kind = "application/octet-stream"
                return ServedResponse(data, 200, kind) if data is not None else _failed(404, "none")
            case _:
                return self._fault(f"GET {path}")

    def _query(self, body: dict[str, Any]) -> ServedResponse:
        conditions = body.get("where", [])
        is_valid = body.keys() <= _QUERY and 1 <= body.get("limit", 100) <= _MAX_PAGE
        if not is_valid or any(
            condition["statement"] not in _STATEMENTS for condition in conditions
        ):
            return self._fault(f"a query: {body}")
        bounds = {
            name: value for condition in conditions for name, value in condition["args"].items()
        }
        after, end = bounds.get("row", 0), bounds.get("end", 1 << 60)
        chat = body.get("chatGuid")
        rows = [
            row
            for row in self.rows
            if after < row["originalROWID"] <= end and (not chat or row["chats"][0]["guid"] == chat)
        ]
        rows.sort(key=lambda row: row["dateCreated"], reverse=body.get("sort", "DESC") == "DESC")
        start = body.get("offset", 0)
        return _success(rows[start : start + body.get("limit", 100)])

    def _send(self, kind: str, request: ServedRequest) -> ServedResponse:
        body: dict[str, Any] = request.json if kind == "text" else request.form()
        plan = self.planned.pop(0) if self.planned else None
        if plan is not None and not plan[1]:
            return plan[0]
        fault = self._fault_of(kind, body)
        if fault:
            return self._fault(f"{kind}: {fault}")
        self.sends.append(body)
        fields: dict[str, Any] = {"isFromMe": True}
        file = body.get("attachment")
        if isinstance(file, UploadedFile):
            guid = f"FILE-{len(self.files)}"
            self.files[guid] = file.data
            fields["attachments"] = [{"guid": guid, "transferName": body["name"]}]
        text = body["message"] if kind == "text" else "\ufffc"
        row = self.add(body["chatGuid"], text, **fields)
        return plan[0] if plan else _success({**row, "tempGuid": body["tempGuid"]})

    def _fault_of(self, kind: str, body: dict[str, Any]) -> str:
        allowed = _TEXT if kind == "text" else _FILE
        if not body.keys() <= allowed or ";" not in body.get("chatGuid", ""):
            return f"fields {sorted(body)}"
        private = body.get("method") == "private-api"
        if private and not self.private_api:
            return "no Private API"
        if not private and (not body.get("tempGuid") or body.keys() & {"selectedMessageGuid"}):
            return "AppleScript needs a tempGuid and cannot quote"
        if kind == "text":
            return "" if body.get("message") else "no message"
        file = body.get("attachment")
        return (
            "" if isinstance(file, UploadedFile) and file.data and body.get("name") else "no file"
        )

    def _react(self, body: dict[str, Any]) -> ServedResponse:
        is_known = any(row["guid"] == body.get("selectedMessageGuid") for row in self.rows)
        word = str(body.get("reaction", ""))
        if not self.private_api or not is_known or word.removeprefix("-") not in _TAPBACKS:
            return self._fault(f"a tapback: {body}")
        self.reactions.append((body["selectedMessageGuid"], word))
        return _success(None)

    def _fault(self, text: str) -> ServedResponse:
        self.faults.append(text)
        return _failed(400, text)


def _success(data: Any) -> ServedResponse:
    return ServedResponse.of({"status": 200, "message": "Success", "data": data})


def _failed(status: int, message: str) -> ServedResponse:
    error = {"type": "Error", "message": message}
    return ServedResponse.of({"status": status, "message": message, "error": error}, status)
