"""Blobs in an S3 bucket, by a small client that signs its own requests (Signature Version 4)."""

import hashlib
import hmac
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self, TypeVar
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

import anyio
import httpx2

from skerry_relayer.blobs import HEAD_BYTES
from skerry_relayer.errors import RefusedError
from skerry_relayer.keys.registry import now_ms

SECONDS: Final = 15.0
"""Seconds for one request."""
_TRIES: Final = 3
_AT_ONCE: Final = 8
_NOT_FOUND: Final = 404
_RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})
_NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Bucket with its credentials."""

    name: str
    prefix: str
    endpoint: str
    """Address without a path; the bucket is the first part of each path."""
    region: str
    key_id: str
    secret: str
    token: str = ""


def bucket_of(address: str, environ: Mapping[str, str] = os.environ) -> Bucket:
    """Returns the bucket of `s3://bucket/prefix`, with credentials from the AWS variables.

    `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` names a server other than that of Amazon.

    Raises:
        RefusedError: the address names no bucket, or the credentials are missing.
    """
    parts = urlsplit(address)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise RefusedError(f"Invalid bucket {address[:60]!r}. Use s3://bucket/prefix.")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        if not environ.get(name):
            raise RefusedError(f"{address[:60]} needs the environment variable {name}.")
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    prefix = parts.path.strip("/")
    return Bucket(
        parts.netloc,
        f"{prefix}/" if prefix else "",
        (endpoint or f"https://s3.{region}.amazonaws.com").rstrip("/"),
        region,
        environ["AWS_ACCESS_KEY_ID"],
        environ["AWS_SECRET_ACCESS_KEY"],
        environ.get("AWS_SESSION_TOKEN", ""),
    )


@dataclass(frozen=True, slots=True)
class RequestToSign:
    """Request to sign; path and query are as they are sent."""

    method: str
    host: str
    path: str
    query: str
    body: bytes = b""


def signature_headers(bucket: Bucket, request: RequestToSign, now: datetime) -> dict[str, str]:
    """Returns the headers that sign a request.

    Source: "Authenticating Requests (AWS Signature Version 4)", Amazon S3 API reference.
    """
    stamp, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    digest = hashlib.sha256(request.body).hexdigest()
    headers = {"host": request.host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    if bucket.token:
        headers["x-amz-security-token"] = bucket.token
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    canonical = "\n".join((request.method, request.path, request.query, *lines, "", names, digest))
    scope = f"{day}/{bucket.region}/s3/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}"
    key = f"AWS4{bucket.secret}".encode()
    for part in (day, bucket.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={bucket.key_id}/{scope}, SignedHeaders={names},"
        f" Signature={signature}"
    )
    return headers


class S3Blobs(anyio.AsyncContextManagerMixin):
    """Blobs in a bucket, under `prefix/owner/id`. Use as `async with S3Blobs(bucket)`.

    An operation that fails three times raises `OSError`.
    """

    def __init__(self, bucket: Bucket, *, clock: Callable[[], int] = now_ms) -> None:
        self._bucket = bucket
        self._clock = clock
        self._client = httpx2.AsyncClient(timeout=SECONDS, follow_redirects=False, trust_env=False)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            yield self

    async def put(self, owner: str, blob_id: str, data: bytes) -> None:
        """Stores a file; replaces a file with the same id."""
        await self._send("PUT", self._key(owner, blob_id), body=data)

    async def get(self, owner: str, ids: Sequence[str]) -> list[bytes | None]:
        """Returns the files in the order of `ids`, None for each missing one."""
        return await _each(ids, lambda id_: self._get(owner, id_))

    async def delete(self, owner: str, ids: Sequence[str]) -> None:
        """Deletes files; ignores missing ones."""
        await _each(ids, lambda id_: self._send("DELETE", self._key(owner, id_)))

    async def heads(self, owner: str) -> list[tuple[str, bytes]]:
        """Returns id and first `HEAD_BYTES` of each file of an owner."""
        prefix = self._key(owner, "")
        ids = [key.removeprefix(prefix) for key in await self._listed(prefix)]
        some = {"range": f"bytes=0-{HEAD_BYTES - 1}"}
        heads = await _each(ids, lambda id_: self._get(owner, id_, some))
        return [(id_, head) for id_, head in zip(ids, heads, strict=True) if head is not None]

    def _key(self, owner: str, blob_id: str) -> str:
        return f"{self._bucket.prefix}{owner[2:]}/{blob_id}"

    async def _get(
        self, owner: str, blob_id: str, headers: Mapping[str, str] | None = None
    ) -> bytes | None:
        response = await self._send("GET", self._key(owner, blob_id), headers=headers)
        return None if response.status_code == _NOT_FOUND else response.content

    async def _listed(self, prefix: str) -> list[str]:
        """Returns the keys below a prefix, requested in pages of a thousand."""
        keys: list[str] = []
        token = ""
        while True:
            query = {"list-type": "2", "prefix": prefix}
            if token:
                query["continuation-token"] = token
            page = await self._send("GET", "", query=query)
            try:
                root = ET.fromstring(page.content)  # noqa: S314 - the operator chose the store
            except ET.ParseError as error:
                raise OSError(5, "the listing of the bucket is not XML") from error
            keys += [item.text or "" for item in root.iter(f"{_NAMESPACE}Key")]
            token = root.findtext(f"{_NAMESPACE}NextContinuationToken") or ""
            if not token:
                return keys

    async def _send(
        self,
        method: str,
        key: str,
        *,
        body: bytes = b"",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Sends a request, and repeats it after temporary failures; the status 404 is returned."""
        path = quote(f"/{self._bucket.name}/{key}", safe="/-_.~")
        pairs = sorted((query or {}).items())
        line = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
        host = urlsplit(self._bucket.endpoint).netloc
        reason = "no answer"
        for attempt in range(_TRIES):
            now = datetime.fromtimestamp(self._clock() / 1000, UTC)
            signed = signature_headers(
                self._bucket, RequestToSign(method, host, path, line, body), now
            )
            url = f"{self._bucket.endpoint}{path}" + (f"?{line}" if line else "")
            try:
                response = await self._client.request(
                    method, url, content=body or None, headers=signed | dict(headers or {})
                )
            except httpx2.TransportError as error:
                reason = type(error).__name__
            else:
                if response.is_success or (response.status_code == _NOT_FOUND and key):
                    return response
                reason = f"status {response.status_code}"
                if response.status_code not in _RETRYABLE:
                    break
            await anyio.sleep(0.2 * 4**attempt)
        raise OSError(5, f"the bucket {self._bucket.name} refuses {method}: {reason}")


async def _each(items: Sequence[str], work: Callable[[str], Awaitable[T]]) -> list[T]:
    """Returns the results for all items in their order, computed `_AT_ONCE` at a time."""
    results: dict[int, T] = {}
    limit = anyio.CapacityLimiter(_AT_ONCE)

    async def run(index: int, item: str) -> None:
        async with limit:
            results[index] = await work(item)

    try:
        async with anyio.create_task_group() as tasks:
            for index, item in enumerate(items):
                tasks.start_soon(run, index, item)
    except* OSError as group:
        raise OSError(5, str(group.exceptions[0])) from group
    return [results[index] for index in range(len(items))]
