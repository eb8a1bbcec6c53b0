"""Posts requests of a platform to an account until they are answered with 200."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Self

import anyio
import httpx2

from skerry.ports.channel import Post, TakesPosts
from skerry.testing.http_server import ServedRequest, ServedResponse, serve

_RETRY_SECONDS: Final = 0.02


@dataclass(slots=True)
class EventPoster(anyio.AsyncContextManagerMixin):
    """Posts the requests of `add` to `url` in order, each repeatedly until the status is 200."""

    url: str = ""
    """Address of the account; while it is empty, requests wait."""
    answers: list[int] = field(default_factory=list)
    """Status of each response, oldest first."""
    waiting: list[tuple[bytes, Mapping[str, str]]] = field(default_factory=list)
    repeats: bool = True
    """False for a platform that sends each request once."""
    skipped: int = 0
    """Number of next attempts that are not sent, as if the network had lost them."""
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run)
            yield self
            tasks.cancel_scope.cancel()

    def add(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Adds a request."""
        self.waiting.append((body, headers))
        self._changed.set()

    async def _run(self) -> None:
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            while True:
                self._changed = anyio.Event()
                while self.waiting:
                    if (
                        not (self.url and await self._post(client, *self.waiting[0]))
                        and self.repeats
                    ):
                        await anyio.sleep(_RETRY_SECONDS)
                        continue
                    del self.waiting[0]
                await self._changed.wait()

    async def _post(
        self, client: httpx2.AsyncClient, body: bytes, headers: Mapping[str, str]
    ) -> bool:
        if self.skipped:
            self.skipped -= 1
            return False
        try:
            answer = await client.post(self.url, content=body, headers=dict(headers))
        except httpx2.HTTPError:
            return False
        self.answers.append(answer.status_code)
        return answer.status_code == 200  # noqa: PLR2004 - HTTP's OK


@asynccontextmanager
async def account_served(adapter: TakesPosts) -> AsyncGenerator[str]:
    """Serves the posts to an account without a gateway; yields the address."""

    async def handle(request: ServedRequest) -> ServedResponse:
        post = Post(
            request.method,
            request.path.strip("/"),
            request.query,
            {name.lower(): text for name, text in request.headers.items()},
            request.body,
        )
        try:
            answer = await adapter.posted(post)
        except Exception:  # noqa: BLE001 - as the gateway does
            return ServedResponse(b"send it again", 503, "text/plain")
        return ServedResponse(answer.body, answer.status, answer.content_type)

    async with serve(handle) as url:
        yield url
