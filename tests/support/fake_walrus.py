"""A publisher and an aggregator of Walrus for tests, as their OpenAPI descriptions say.

An id is a hash of the bytes, which is not how the network makes it. An aggregator does not know a
blob at once, certification may be slow, and blobs end with their epochs.
"""

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.gateway import serving


class FakeWalrus(Struct):
    """State of the network."""

    epoch: int = 30
    unknown: int = 0
    """Requests for a blob that an aggregator answers with 404 before it knows the blob."""
    uncertified: int = 0
    """Uploads that the publisher answers with 504 before one is certified."""
    is_down: bool = False
    token: str = ""
    """Credential that the publisher wants."""
    blobs: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """Bytes and last epoch of each blob."""
    late: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def app(self) -> Starlette:
        """Returns publisher and aggregator."""
        return Starlette(
            routes=[
                Route("/v1/blobs", self._store, methods=["PUT"]),
                Route("/v1/blobs/{blob_id}", self._read, methods=["GET"]),
            ]
        )

    async def _store(self, request: Request) -> Response:
        data = await request.body()
        self.requests.append(("PUT", str(request.url.query)))
        if self.is_down:
            return _error(500, "INTERNAL", "the network is down")
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return _error(401, "UNAUTHENTICATED", "missing authorization")
        digest = hashlib.blake2b(b"walrus" + data, digest_size=32).digest()
        blob_id = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        end = self.epoch + int(request.query_params.get("epochs", "1"))
        if self.uncertified:
            self.uncertified -= 1
            await anyio.lowlevel.checkpoint()
            return _error(504, "DEADLINE_EXCEEDED", "the blob is registered and not certified")
        known = self.blobs.get(blob_id)
        if known is not None and known[1] >= end:
            certified: dict[str, Any] = {"blobId": blob_id, "endEpoch": known[1]}
            return JSONResponse({"alreadyCertified": certified})
        self.blobs[blob_id] = data, end
        self.late[blob_id] = self.unknown
        storage = {"id": "0x1", "startEpoch": self.epoch, "endEpoch": end, "storageSize": 1}
        created = {
            "id": "0x2",
            "registeredEpoch": self.epoch,
            "blobId": blob_id,
            "size": len(data),
            "encodingType": "RS2",
            "certifiedEpoch": self.epoch,
            "storage": storage,
            "deletable": request.query_params.get("deletable") == "true",
        }
        return JSONResponse({"newlyCreated": {"blobObject": created, "cost": 1}})

    async def _read(self, request: Request) -> Response:
        blob_id = request.path_params["blob_id"]
        self.requests.append(("GET", blob_id))
        if self.is_down:
            return _error(500, "INTERNAL", "the network is down")
        data, end = self.blobs.get(blob_id, (b"", -1))
        if self.late.get(blob_id):
            self.late[blob_id] -= 1
            return _error(404, "NOT_FOUND", "the blob is not known yet")
        if end <= self.epoch:
            return _error(404, "NOT_FOUND", "the requested blob ID does not exist")
        return Response(data, media_type="application/octet-stream")


def _error(code: int, status: str, message: str) -> Response:
    error = {"status": status, "code": code, "message": message, "details": []}
    return JSONResponse({"error": error}, code)


@asynccontextmanager
async def fake_walrus(network: FakeWalrus | None = None) -> AsyncIterator[tuple[FakeWalrus, str]]:
    """Serves a network in the test's process; gives its state and its address."""
    network = network or FakeWalrus()
    async with serving(network.app()) as port:
        yield network, f"http://127.0.0.1:{port}"
