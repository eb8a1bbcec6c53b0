"""A gateway whose API of OpenAI is enabled, and a client for it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import msgspec

from skerry.app.build import Application
from skerry.client.discover import GatewayAddress
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.model.message import Message
from skerry.store import sessions
from skerry.testing.model import ScriptedModel
from tests.support.whole import whole_gateway

TOKEN: Final = "5eed" * 12
API_TOKEN: Final = "0123456789abcdef0123456789ABCDEF"  # noqa: S105 - of tests
AUTH: Final = {"authorization": f"Bearer {TOKEN}"}
CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
TOOLS: Final = "/tools/invoke"


def chat_body(*texts: str, **more: Any) -> dict[str, Any]:
    """Returns a body with these messages, of the person and the assistant in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    return {"model": "skerry", "messages": messages, **more}


def chunks(text: str) -> list[dict[str, Any]]:
    """Returns the chunks of a stream, which must end with the mark of its end."""
    events = [event.removeprefix("data: ") for event in text.split("\n\n") if event[:1] == "d"]
    assert events[-1] == "[DONE]"
    return [msgspec.json.decode(event) for event in events[:-1]]


def streamed(text: str) -> str:
    """Returns the text in the chunks of a stream."""
    choices = [choice for chunk in chunks(text) for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


class ApiClient:
    """Sends requests to one gateway."""

    def __init__(self, application: Application, address: GatewayAddress) -> None:
        self.application = application
        self.url = address.url.replace("ws://", "http://").rstrip("/")
        self.port = int(self.url.rpartition(":")[2])

    async def __call__(
        self,
        body: Any = None,
        headers: Mapping[str, str] = AUTH,
        path: str = CHAT,
        method: str = "POST",
    ) -> httpx2.Response:
        """Sends a body, JSON unless it is bytes; returns the response."""
        content: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        if body is None:
            content = {}
        async with httpx2.AsyncClient(timeout=60) as client:
            url = self.url + path
            return await client.request(method, url, headers=dict(headers), **content)

    async def send_raw(
        self, stream: Any, body: Any, *lines: str, path: str = CHAT, length: bool = True
    ) -> None:
        """Sends a request over an open connection; with `lines` as further lines of its head."""
        await stream.send(self.raw(body, *lines, path=path, length=length))

    def raw(self, body: Any, *lines: str, path: str = CHAT, length: bool = True) -> bytes:
        """Returns the bytes of a request."""
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        head = [
            f"POST {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {TOKEN}",
            *([f"Content-Length: {len(encoded)}"] if length else []),
            *lines,
        ]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + encoded

    async def transcript(self, key: str) -> Sequence[Message]:
        """Returns the messages of the present session of a key."""
        store = self.application.context.store
        session = await store.read(lambda reader: sessions.find(reader, key))
        assert session is not None
        entries = await store.read(
            lambda reader: sessions.entries(reader, session.session_id, limit=-1)
        )
        return [entry.message for entry in entries]

    async def until_idle(self) -> None:
        """Waits until no run is active."""
        dispatch = self.application.dispatch
        with anyio.fail_after(60):
            while active := dispatch.active():
                await dispatch.wait(active[0], 60)


@asynccontextmanager
async def serving_api(
    home: Path,
    model: ScriptedModel | None = None,
    http: Mapping[str, Any] | None = None,
    *,
    clock: Clock | None = None,
    hooks: Hooks | None = None,
    gateway: Mapping[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[ApiClient]:
    """Serves a gateway; `http` is merged into `gateway.http`, `gateway` into `gateway`."""
    enabled = {"enabled": True}
    endpoints = dict.fromkeys(("chatCompletions", "responses", "toolsInvoke"), enabled)
    section = {
        "auth": {"token": TOKEN},
        "http": {"endpoints": endpoints, **(http or {})},
        **(gateway or {}),
    }
    fields = None if home.exists() else {"gateway": section, **config}
    serving = whole_gateway(home, hooks or Hooks(), config=fields, clock=clock, model=model)
    async with serving as (application, address):
        yield ApiClient(application, address)
