"""Posts the ends of runs to the webhooks of their jobs, through the guarded client."""

import logging
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field, json
from msgspec.structs import replace

from skerry.features.cron import job_records, tables
from skerry.features.cron.execution import POSTS
from skerry.features.cron.job_records import JobPost
from skerry.features.cron.jobs import JobLogEntry
from skerry.features.cron.wire import entry_event
from skerry.gateway.context import GatewayContext
from skerry.infra.backoff import Backoff
from skerry.model.errors import StateError
from skerry.net.live_client import LiveClient
from skerry.net.safe_fetch import Fetched, FetchRequest, Outcome
from skerry.store import Unit

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 5
AT_ONCE: Final = 8
"""Webhooks that are posted at the same time."""
RETRIES: Final = Backoff(5.0, 600.0, 4.0)
POST_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 4_096
_RETRY_SECONDS: Final = 1.0
_SUCCESS: Final = range(200, 300)
_UNAUTHORIZED: Final = frozenset({401, 403})


class Webhooks(Struct):
    """Posts webhooks, and repeats failed posts, until cancelled."""

    context: GatewayContext
    _client: LiveClient = field(default_factory=LiveClient)
    _active: set[tuple[str, int]] = field(default_factory=set)
    """Job and due time of the runs that are being posted."""
    _limit: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_ONCE))

    async def run(self) -> None:
        """Posts each webhook until its server accepts it, at most five times.

        Several are posted at once: a server that does not answer must not delay the others.
        """
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    seconds = await self.look(tasks)
                except StateError as error:
                    logger.warning("webhooks of cron jobs wait for the store: %s", error)
                    seconds = _RETRY_SECONDS
                await self.context.signals.wait(POSTS, seconds)

    async def look(self, tasks: TaskGroup) -> float | None:
        """Begins the due posts; returns the seconds until the next one, or None."""
        stored = await self.context.store.read(job_records.posts)
        waiting = [post for post in stored if (post.job_id, post.due_at) not in self._active]
        now = self.context.clock.now_ms()
        for post in waiting:
            if post.retry_at <= now:
                self._active.add((post.job_id, post.due_at))
                tasks.start_soon(self._send, post)
        later = [post.retry_at for post in waiting if post.retry_at > now]
        return (min(later) - now) / 1000 if later else None

    async def _send(self, post: JobPost) -> None:
        """Posts a webhook; its end lets `run` look again."""
        try:
            async with self._limit:
                await self._post(post)
        except StateError as error:
            logger.warning("a webhook of cron job %s waits for the store: %s", post.job_id, error)
            await anyio.sleep(_RETRY_SECONDS)
        self._active.discard((post.job_id, post.due_at))
        self.context.signals.set(POSTS)

    async def _post(self, post: JobPost) -> None:
        config = self.context.config()
        headers = {"content-type": "application/json", "idempotency-key": post.entry.run_id or ""}
        # Whoever adds a job names the address, so that only configured ones get the secret.
        token = config.cron.token_for(post.address)
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        request = FetchRequest(
            post.address,
            "POST",
            headers,
            json.encode(entry_event(post.entry)),
            _ANSWER_BYTES,
            POST_SECONDS,
        )
        fetched = await self._client.fetch(request, config.tools.web.fetch.ssrf_policy.rules)
        error = _error(fetched)
        if fetched.status in _UNAUTHORIZED and token is None and config.cron.webhook_token:
            error += "; cron.webhookTokenUrls does not list its address, so it got no token"
        last = post.attempts + 1 >= ATTEMPTS or fetched.outcome is Outcome.BLOCK
        if error and not last:
            await self._put_off(post, error)
            return
        entry = replace(
            post.entry,
            delivery_status="not-delivered" if error else "delivered",
            delivery_error=error or None,
        )
        await self.context.store.write(partial(_ended, due_at=post.due_at, entry=entry))
        if error:
            logger.warning(
                "the webhook of cron job %s failed for the last time: %s", post.job_id, error
            )

    async def _put_off(self, post: JobPost, error: str) -> None:
        pause = RETRIES.delay(post.attempts + 1)
        retry_at = self.context.clock.now_ms() + round(pause * 1000)
        logger.warning(
            "the webhook of cron job %s failed and will be repeated: %s", post.job_id, error
        )

        def write(unit: Unit) -> None:
            tables.put_off(unit, post.job_id, post.due_at, retry_at)

        await self.context.store.write(write)


def _ended(unit: Unit, due_at: int, entry: JobLogEntry) -> None:
    job_records.posted(unit, due_at, entry)


def _error(fetched: Fetched) -> str:
    """Returns the reason why the server refused the post, or an empty string."""
    if fetched.outcome is not Outcome.ALLOW:
        return f"{fetched.outcome}: {fetched.reason}"
    return "" if fetched.status in _SUCCESS else f"the server answered {fetched.status}"
