"""Posts to the webhooks of a gateway, for tests."""

import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

from skerry.app.build import Application
from skerry.client.discover import GatewayAddress
from skerry.hooks.hooks import Hooks
from skerry.model.ids import RunId
from skerry.model.message import Message
from skerry.store import sessions
from skerry.testing.clock import FakeClock
from tests.support.whole import whole_gateway

TOKEN: Final = "0123456789abcdef0123456789ABCDEF"  # noqa: S105 - of tests
SECRET: Final = "fedcba9876543210fedcba9876543210"  # noqa: S105 - of tests
AUTH: Final = {"authorization": f"Bearer {TOKEN}"}


class Posts:
    """Posts to one gateway."""

    def __init__(self, application: Application, address: GatewayAddress) -> None:
        self.application = application
        self.url = address.url.replace("ws://", "http://").rstrip("/")

    async def __call__(
        self, name: str, body: Any, headers: Mapping[str, str] = AUTH, method: str = "POST"
    ) -> httpx2.Response:
        """Sends a body, JSON unless it is bytes; returns the answer."""
        content: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        async with httpx2.AsyncClient(timeout=60) as client:
            return await client.request(
                method, f"{self.url}/hooks/{name}", headers=dict(headers), **content
            )

    async def heard(self, answer: httpx2.Response) -> list[Message]:
        """Returns the messages of the session of a post, once its run has ended."""
        ran = answer.json()
        dispatch = self.application.dispatch
        with anyio.fail_after(60):
            await dispatch.wait(RunId(ran["runId"]), 60)
        key = ran["sessionKey"]
        store = dispatch.runtime.store
        session = await store.read(lambda reader: sessions.find(reader, key))
        assert session is not None
        entries = await store.read(
            lambda reader: sessions.entries(reader, session.session_id, limit=-1)
        )
        return [entry.message for entry in entries]


@asynccontextmanager
async def posting(
    home: Path,
    hooks: Mapping[str, Any] | None = None,
    clock: FakeClock | None = None,
    **more: Any,
) -> AsyncIterator[Posts]:
    """Serves a gateway with webhooks; `hooks` is merged into the section."""
    section = {"enabled": True, "token": TOKEN, **(hooks or {})}
    config = None if home.exists() else {"hooks": section, **more}
    async with whole_gateway(home, Hooks(), config=config, clock=clock) as (application, address):
        yield Posts(application, address)


def signed(body: bytes, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    """Returns the headers of a signed body, with a time where there is one."""
    text = body if at is None else f"{int(at)}.".encode() + body
    digest = hmac.new(secret.encode(), text, sha256).hexdigest()
    if at is None:
        return {"x-hub-signature-256": f"sha256={digest}"}
    return {"x-skerry-signature": digest, "x-skerry-timestamp": str(int(at))}
