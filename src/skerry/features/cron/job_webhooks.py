"""Posts the ends of runs to the webhooks of their jobs, through the guarded client."""

import logging
from functools import partial
from typing import Final

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

    async def run(self) -> None:
        """Posts each webhook until its server accepts it, at most five times."""
        while True:
            try:
                seconds = await self.look()
            except StateError as error:
                logger.warning("webhooks of cron jobs wait for the store: %s", error)
                seconds = _RETRY_SECONDS
            await self.context.signals.wait(POSTS, seconds)

    async def look(self) -> float | None:
        """Posts the due webhooks; returns the seconds until the next one, or None."""
        posts = await self.context.store.read(job_records.posts)
        for post in posts:
            if post.retry_at <= self.context.clock.now_ms():
                await self._post(post)
        pending = await self.context.store.read(job_records.posts)
        if not pending:
            return None
        due_at = min(post.retry_at for post in pending)
        return max((due_at - self.context.clock.now_ms()) / 1000, 0.0)

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
