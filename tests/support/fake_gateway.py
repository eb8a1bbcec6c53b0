"""A gateway that plays a script: real sockets, the v4 handshake, and nothing behind it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Handler = Callable[["Exchange"], Awaitable[None]]
TOKEN = "0123456789abcdef" * 3
MODEL = {"id": "tiny", "name": "Tiny", "provider": "scripted"}


@dataclass(frozen=True)
class Exchange:
    """One request and the ways to answer it."""

    socket: ServerConnection
    id: str
    params: dict[str, Any]

    async def reply(self, payload: Any) -> None:
        await self._send({"type": "res", "id": self.id, "ok": True, "payload": payload})

    async def refuse(
        self, code: str, message: str, details: Any = None, payload: Any = None
    ) -> None:
        error = {"code": code, "message": message, "details": details}
        frame = {"type": "res", "id": self.id, "ok": False, "error": error, "payload": payload}
        await self._send(frame)

    async def event(self, name: str, **payload: Any) -> None:
        await self._send({"type": "event", "event": name, "payload": payload, "seq": 1})

    async def chat(self, state: str, text: str | None = None, **more: Any) -> None:
        """Sends a chat event of the run that this request began."""
        payload = {"runId": self.params["idempotencyKey"], "state": state, **more}
        if text is not None:
            payload["message"] = {
                "role": "assistant",
                "content": [{"type": "text", "text": text}],
            }
        await self.event("chat", **payload)

    async def _send(self, frame: Any) -> None:
        await self.socket.send(json.dumps(frame))


@dataclass
class FakeGateway:
    """`methods` answer; `connects`, `requests` and `sockets` are what came in."""

    methods: dict[str, Handler] = field(default_factory=dict)
    connects: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    sockets: list[ServerConnection] = field(default_factory=list)
    url: str = ""
    features: dict[str, Any] = field(default_factory=dict)
    snapshot: dict[str, Any] = field(default_factory=dict)

    def answer(self, method: str, payload: Any) -> None:
        """Lets `method` always answer `payload`."""

        async def handler(exchange: Exchange) -> None:
            await exchange.reply(payload)

        self.methods[method] = handler

    async def _serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        payload = {"nonce": "n", "ts": 1}
        await socket.send(
            json.dumps({"type": "event", "event": "connect.challenge", "payload": payload})
        )
        try:
            async for text in socket:
                frame = json.loads(text)
                exchange = Exchange(socket, frame["id"], frame.get("params") or {})
                if frame["method"] == "connect":
                    await self._connect(exchange)
                else:
                    self.requests.append((frame["method"], exchange.params))
                    await self.methods[frame["method"]](exchange)
        except ConnectionClosed:
            pass

    async def _connect(self, exchange: Exchange) -> None:
        self.connects.append(exchange.params)
        if exchange.params.get("auth", {}).get("token") != TOKEN:
            details = {"code": "AUTH_TOKEN_MISMATCH"}
            await exchange.refuse("INVALID_REQUEST", "unauthorized: token mismatch", details)
            await exchange.socket.close(1008, "unauthorized")
            return
        snapshot = {"presence": [], "health": {}, "uptimeMs": 61_000} | self.snapshot
        server = {"version": "0.0.test", "connId": "c"}
        hello = {"type": "hello-ok", "protocol": 4, "server": server, "snapshot": snapshot}
        await exchange.reply(hello | {"features": self.features})


@asynccontextmanager
async def fake_gateway(port: int = 0) -> AsyncIterator[FakeGateway]:
    """Serves a `FakeGateway` on 127.0.0.1 for the block."""
    gateway = FakeGateway()
    gateway.answer("health", {"ok": True})
    gateway.answer("status", {"sessions": {"count": 3}})
    gateway.answer("models.list", {"models": [MODEL]})
    gateway.answer("models.status", {"state": "ready", "model": MODEL})
    gateway.answer("chat.history", {"messages": []})
    gateway.answer("commands.list", {"commands": [{"name": "status"}]})
    gateway.answer("plugins.list", {"plugins": []})
    server: Server
    async with serve(gateway._serve, "127.0.0.1", port, max_size=2**25) as server:
        bound = next(iter(server.sockets)).getsockname()[1]
        gateway.url = f"ws://127.0.0.1:{bound}"
        yield gateway
