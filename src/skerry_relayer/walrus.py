"""Blobs on a Walrus network, by the HTTP interface of its publishers and aggregators.

Source: the OpenAPI descriptions that publishers and aggregators serve at `/v1/api`. A publisher
stores a blob for a number of epochs and returns an id of the network. An aggregator reads by this
id, which it may not have for a while after the upload. HTTP has no listing and no deletion: the
database stores the ids, and a deleted blob expires with its epochs.
"""

import logging
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Self
from urllib.parse import parse_qs, quote, urlsplit

import anyio
import httpx2
import msgspec

from skerry_relayer import walrus_rows
from skerry_relayer.blobs import HEAD_BYTES
from skerry_relayer.database import Database
from skerry_relayer.errors import DownError, RefusedError
from skerry_relayer.keys.registry import now_ms
from skerry_relayer.walrus_rows import WalrusBlob

logger = logging.getLogger(__name__)

SCHEME: Final = "walrus+"
TOKEN: Final = "WALRUS_PUBLISHER_TOKEN"  # noqa: S105 - the name of a variable
PUT_SECONDS: Final = 120.0
"""Time limit for an upload, with its certification."""
GET_SECONDS: Final = 15.0
WAITS: Final = (0.2, 0.8, 3.0)
"""Seconds before a retry, also for an id that an aggregator does not have yet."""
FRESH_MS: Final = 600_000
"""Time after an upload within which a 404 of an aggregator is retried."""
MAX_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a blob in bytes."""
MAX_CACHED_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of the cached ciphertext in bytes, so that new blobs can be read at once."""
RENEW_SECONDS: Final = 3600.0
"""Interval of the search for blobs that expire soon."""
MAX_EPOCHS: Final = 53
_BATCH: Final = 50
_DAY_MS: Final = 86_400_000
_AT_ONCE: Final = 8
_NOT_FOUND: Final = 404
_RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class Network(msgspec.Struct, frozen=True):
    """Addresses of a network, and the storage time of blobs."""

    publisher: str
    aggregators: tuple[str, ...]
    epochs: int = 5
    epoch_days: float = 14.0
    token: str = ""
    """Credential of the publisher; empty for none."""

    @property
    def renew_ms(self) -> int:
        """Returns the age at which a blob is uploaded again: half of its storage time."""
        return round(self.epochs * self.epoch_days * _DAY_MS / 2)


def network_of(address: str, environ: Mapping[str, str] = os.environ) -> Network:
    """Returns the network of `walrus+https://publisher?aggregator=...&epochs=5&epoch-days=14`.

    Raises:
        RefusedError: the address names no publisher, or an option is wrong.
    """
    try:
        parts = urlsplit(address.removeprefix(SCHEME))
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        publisher = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        aggregators = tuple(url.rstrip("/") for url in options.pop("aggregator", [publisher]))
        epochs = int(options.pop("epochs", ["5"])[-1])
        days = float(options.pop("epoch-days", ["14"])[-1])
    except ValueError:
        usable, options, epochs, days = False, {}, 1, 1.0
        publisher, aggregators = "", ()
    if not usable or options or not (1 <= epochs <= MAX_EPOCHS and 0 < days <= 366):  # noqa: PLR2004 - a year
        raise RefusedError(
            f"Invalid network {address[:80]!r}. Use walrus+https://PUBLISHER?aggregator=https://..."
            f"&epochs=N&epoch-days=N, with 1 to {MAX_EPOCHS} epochs."
        )
    return Network(publisher, aggregators, epochs, days, environ.get(TOKEN, ""))


class _NewlyCreated(msgspec.Struct, rename="camel"):
    blob_id: str
    storage: dict[str, Any] = {}


class _Created(msgspec.Struct, rename="camel"):
    blob_object: _NewlyCreated


class _Certified(msgspec.Struct, rename="camel"):
    blob_id: str
    end_epoch: int = 0


class _Answer(msgspec.Struct, rename="camel"):
    newly_created: _Created | None = None
    already_certified: _Certified | None = None


class WalrusBlobs(anyio.AsyncContextManagerMixin):
    """Implements `blobs.BlobStore`. Use as `async with WalrusBlobs(network, database)`.

    Inside the block, blobs are uploaded again before they expire.
    """

    def __init__(
        self, network: Network, database: Database, *, clock: Callable[[], int] = now_ms
    ) -> None:
        self._network = network
        self._database = database
        self._clock = clock
        self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=False)
        self._recent: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._kept_bytes = 0

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client, anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_renewing)
            yield self
            tasks.cancel_scope.cancel()

    async def put(self, owner: str, blob_id: str, data: bytes) -> None:
        """Stores a file; returns when it is certified and the database has its id."""
        stored = await self._uploaded(owner, blob_id, data)
        await self._database.write(lambda unit: walrus_rows.put(unit, stored))
        self._keep(owner, blob_id, data)

    async def get(self, owner: str, ids: Sequence[str]) -> list[bytes | None]:
        """Returns the files in the order of `ids`, None for each missing one."""
        missing = [blob_id for blob_id in ids if (owner, blob_id) not in self._recent]
        stored_by_id = await self._database.read(
            lambda unit: walrus_rows.of_ids(unit, owner, missing)
        )
        files: dict[str, bytes | None] = {
            blob_id: self._recent.get((owner, blob_id)) for blob_id in ids
        }
        limit = anyio.CapacityLimiter(_AT_ONCE)

        async def download(stored: WalrusBlob) -> None:
            async with limit:
                files[stored.blob_id] = await self._downloaded(stored)

        try:
            async with anyio.create_task_group() as tasks:
                for stored in stored_by_id.values():
                    tasks.start_soon(download, stored)
        except* OSError as group:
            raise OSError(5, str(group.exceptions[0])) from group
        return [files[blob_id] for blob_id in ids]

    async def delete(self, owner: str, ids: Sequence[str]) -> None:
        """Deletes the ids of files; the network stores their ciphertext until their epochs end."""
        for blob_id in ids:
            self._drop(owner, blob_id)
        await self._database.write(lambda unit: walrus_rows.forget(unit, owner, ids))

    async def heads(self, owner: str) -> list[tuple[str, bytes]]:
        """Returns id and first `HEAD_BYTES` of each file of an owner."""
        ids = await self._database.read(lambda unit: walrus_rows.ids_of(unit, owner))
        files = await self.get(owner, ids)
        return [
            (blob_id, file[:HEAD_BYTES])
            for blob_id, file in zip(ids, files, strict=True)
            if file is not None
        ]

    async def renew(self) -> int:
        """Uploads blobs again after half of their storage time; returns their number."""
        due, renewed = self._clock() - self._network.renew_ms, 0
        while rows := await self._database.read(
            partial(walrus_rows.before, time=due, limit=_BATCH)
        ):
            for stored in rows:
                renewed += await self._renewed(stored)
        return renewed

    async def _renewed(self, stored: WalrusBlob) -> bool:
        """Uploads a blob again; if it is lost, deletes its row and returns False."""
        data = await self._downloaded(stored)
        if data is None:
            logger.warning("the network has lost the blob %s", stored.walrus_id)
            forget = partial(walrus_rows.forget, owner=stored.owner, ids=[stored.blob_id])
            await self._database.write(forget)
            return False
        uploaded = await self._uploaded(stored.owner, stored.blob_id, data)
        await self._database.write(partial(walrus_rows.put, stored=uploaded))
        return True

    async def _keep_renewing(self) -> None:
        while True:
            try:
                await self.renew()
            except (OSError, DownError) as error:
                logger.warning("blobs could not be uploaded again: %s", error)
            await anyio.sleep(RENEW_SECONDS)

    async def _uploaded(self, owner: str, blob_id: str, data: bytes) -> WalrusBlob:
        network = self._network
        url = f"{network.publisher}/v1/blobs?epochs={network.epochs}&deletable=true"
        headers = {"content-type": "application/octet-stream"}
        if network.token:
            headers["authorization"] = f"Bearer {network.token}"
        status, body = await self._tried("PUT", [url], PUT_SECONDS, headers, data)
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.MsgspecError as error:
            raise OSError(5, f"the publisher answered PUT with {status} without a blob") from error
        if answer.newly_created is not None:
            blob = answer.newly_created.blob_object
            end = blob.storage.get("endEpoch", 0)
            walrus_id, end_epoch = blob.blob_id, end if isinstance(end, int) else 0
        elif answer.already_certified is not None:
            walrus_id = answer.already_certified.blob_id
            end_epoch = answer.already_certified.end_epoch
        else:
            raise OSError(5, "the publisher has not certified the blob")
        return WalrusBlob(owner, blob_id, walrus_id, end_epoch, self._clock())

    async def _downloaded(self, stored: WalrusBlob) -> bytes | None:
        """Returns a file; None if it does not exist. Waits for a file that was just uploaded."""
        path = f"/v1/blobs/{quote(stored.walrus_id, safe='')}"
        urls = [aggregator + path for aggregator in self._network.aggregators]
        is_fresh = self._clock() - stored.stored_at < FRESH_MS
        retryable = _RETRYABLE | {_NOT_FOUND} if is_fresh else _RETRYABLE
        status, body = await self._tried("GET", urls, GET_SECONDS, {}, b"", retryable)
        if status == _NOT_FOUND:
            return None
        self._keep(stored.owner, stored.blob_id, body)
        return body

    async def _tried(
        self,
        method: str,
        urls: Sequence[str],
        seconds: float,
        headers: Mapping[str, str],
        data: bytes,
        retryable: frozenset[int] | set[int] = _RETRYABLE,
    ) -> tuple[int, bytes]:
        """Returns status and body of the first address that answers with 200, or 404.

        Raises:
            OSError: all attempts failed.
        """
        reason = "no answer"
        for wait in (*WAITS, None):
            missing = 0
            for url in urls:
                try:
                    status, body = await self._sent(method, url, seconds, headers, data)
                except (httpx2.TransportError, TimeoutError) as error:
                    reason = type(error).__name__
                    continue
                if status == httpx2.codes.OK:
                    return status, body
                reason = f"status {status}"
                missing += status == _NOT_FOUND
                if status not in retryable | {_NOT_FOUND}:
                    raise OSError(5, f"{method} of the network failed: {reason}")
            if missing == len(urls) and _NOT_FOUND not in retryable:
                return _NOT_FOUND, b""
            if wait is not None:
                await anyio.sleep(wait)
        raise OSError(5, f"{method} of the network failed: {reason}")

    async def _sent(
        self, method: str, url: str, seconds: float, headers: Mapping[str, str], data: bytes
    ) -> tuple[int, bytes]:
        body = bytearray()
        with anyio.fail_after(seconds):
            async with self._client.stream(
                method, url, content=data or None, headers=dict(headers), timeout=seconds
            ) as response:
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > MAX_BYTES:
                        raise OSError(5, f"the network answered {method} with too many bytes")
        return response.status_code, bytes(body)

    def _keep(self, owner: str, blob_id: str, data: bytes) -> None:
        self._drop(owner, blob_id)
        self._recent[owner, blob_id] = data
        self._kept_bytes += len(data)
        while self._kept_bytes > MAX_CACHED_BYTES:
            _, oldest = self._recent.popitem(last=False)
            self._kept_bytes -= len(oldest)

    def _drop(self, owner: str, blob_id: str) -> None:
        self._kept_bytes -= len(self._recent.pop((owner, blob_id), b""))
