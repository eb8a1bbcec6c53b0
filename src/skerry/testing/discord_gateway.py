"""Gateway of the Discord fake: sessions, which outlive their sockets, and heartbeats."""

from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import msgspec

from skerry.testing.discord_objects import APPLICATION, BOT, GUILD, TOKEN, guild, person
from skerry.testing.http_server import ServedSocket

_MAX_SENT: Final = 4096
_NEEDED_INTENTS: Final = 1 << 9 | 1 << 12 | 1 << 15
"""Intents without which a bot receives no messages."""


@dataclass(slots=True)
class BotSession:
    """Events of one bot since its `identify`."""

    id: str
    events: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    forgotten: int = 0
    """Number of the last event that a heartbeat confirmed."""

    def add(self, kind: str, data: Any) -> None:
        """Adds an event."""
        self.count += 1
        self.events.append({"op": 0, "t": kind, "s": self.count, "d": data})


@dataclass(slots=True)
class DiscordGateway:
    """Sessions and sockets; the server passes each WebSocket to `serve`."""

    url: str = ""
    interval_ms: int = 45_000
    is_silent: bool = False
    """Does not answer heartbeats."""
    refused_sockets: int = 0
    """Number of next sockets that are closed when they open."""
    close_with: int = 0
    """Code that closes the socket of the next `identify` or `resume`; 0 for none."""
    faults: list[str] = field(default_factory=list)
    introductions: list[str] = field(default_factory=list)
    """`identify` and `resume`, in order."""
    beats: int = 0
    sessions: dict[str, BotSession] = field(default_factory=dict)
    _sockets: list[ServedSocket] = field(default_factory=list)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_alone(self) -> bool:
        """Returns whether no socket is open."""
        return not self._sockets

    def dispatch(self, kind: str, data: Any) -> None:
        """Adds an event to every session."""
        for session in self.sessions.values():
            session.add(kind, data)
        self.wake()

    def repeat(self) -> None:
        """Sends the last event again, with a new number."""
        for session in self.sessions.values():
            session.add(session.events[-1]["t"], session.events[-1]["d"])
        self.wake()

    def expire(self) -> None:
        """Deletes the sessions, as Discord does after some minutes without a socket."""
        self.sessions.clear()

    async def send(self, op: int, data: Any = None) -> None:
        """Sends a message other than an event to every socket."""
        for socket in list(self._sockets):
            await socket.send(_text({"op": op, "d": data}))

    async def cut(self, code: int = 0) -> None:
        """Closes every socket."""
        for socket in list(self._sockets):
            await socket.close(code)

    def wake(self) -> None:
        """Wakes the tasks that wait for a change."""
        self._changed.set()
        self._changed = anyio.Event()

    async def changed(self) -> None:
        """Waits for the next change."""
        await self._changed.wait()

    async def serve(self, socket: ServedSocket) -> None:
        """Serves one socket until it ends."""
        if self.refused_sockets:
            self.refused_sockets -= 1
            return
        await socket.send(_text({"op": 10, "d": {"heartbeat_interval": self.interval_ms}}))
        self._sockets.append(socket)
        try:
            async with anyio.create_task_group() as tasks:
                while (text := await socket.receive()) is not None:
                    if len(text.encode()) > _MAX_SENT:
                        self.faults.append("a message of more than 4096 bytes")
                    frame = msgspec.json.decode(text)
                    if frame["op"] == 1:
                        await self._beat(socket, frame["d"])
                    elif frame["op"] in {2, 6}:
                        begun = await self._introduce(socket, frame["op"], frame["d"])
                        if begun is not None:
                            tasks.start_soon(self._give, socket, *begun)
                    elif frame["op"] != 3:  # noqa: PLR2004 - presence, which libraries send
                        self.faults.append(f"op {frame['op']}")
                tasks.cancel_scope.cancel()
        finally:
            self._sockets.remove(socket)

    async def _beat(self, socket: ServedSocket, sequence: int | None) -> None:
        self.beats += 1
        for session in self.sessions.values():
            session.forgotten = max(session.forgotten, sequence or 0)
        self.wake()
        if not self.is_silent:
            await socket.send(_text({"op": 11, "d": None}))

    async def _introduce(
        self, socket: ServedSocket, op: int, data: dict[str, Any]
    ) -> tuple[BotSession, int] | None:
        self.introductions.append("identify" if op == 2 else "resume")  # noqa: PLR2004 - Discord's number
        code, self.close_with = self.close_with, 0
        if data["token"].removeprefix("Bot ") != TOKEN:
            code = 4004
        if op == 2 and data["intents"] & _NEEDED_INTENTS != _NEEDED_INTENTS:  # noqa: PLR2004 - as above
            self.faults.append("intents: messages of people would not arrive")
        session = self.sessions.get(data.get("session_id", ""))
        if op == 6 and session and data["seq"] > session.count:  # noqa: PLR2004 - as above
            code = 4007
        if code:
            await socket.close(code)
            return None
        if op == 6:  # noqa: PLR2004 - as above
            if session is None:
                await socket.send(_text({"op": 9, "d": False}))
                return None
            if data["seq"] < session.forgotten:
                self.faults.append("a resumption from before the last confirmed event")
            return session, data["seq"]
        session = BotSession(f"session-{len(self.introductions)}")
        self.sessions = {session.id: session}
        about = {"v": 10, "user": person(BOT, "house", bot=True), "private_channels": []}
        ready = {"guilds": [{"id": GUILD, "unavailable": True}], "shard": [0, 1]}
        names = {"session_id": session.id, "resume_gateway_url": f"{self.url}/resumed"}
        application = {"application": {"id": APPLICATION, "flags": 0}}
        session.add("READY", {**about, **ready, **names, **application})
        session.add("GUILD_CREATE", guild())
        return session, 0

    async def _give(self, socket: ServedSocket, session: BotSession, sequence: int) -> None:
        is_resumed, sent = sequence > 0, sequence
        self.wake()
        while True:
            changed = self._changed  # read first: events may be added during the sends
            for event in [event for event in session.events if event["s"] > sent]:
                sent = event["s"]
                await socket.send(_text(event))
            if is_resumed:
                is_resumed = False
                session.add("RESUMED", {})
                continue
            await changed.wait()


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
