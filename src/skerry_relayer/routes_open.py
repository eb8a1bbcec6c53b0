"""Answers the unsigned routes: health, version, config, metrics, Sui reads and blobs."""

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from . import chain
from .answers import reply
from .gate import read_body
from .relayer import VERSION, Relayer

API_VERSION: Final = "1.0.0"
"""Version of the protocol; clients refuse another major version."""

_HOST: Final = re.compile(
    r"[A-Za-z0-9.-]{1,255}(:[0-9]{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:[0-9]{1,5})?"
)
_BLOB: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def compatibility() -> dict[str, Any]:
    """Returns the six fields by which clients check their compatibility."""
    return {
        "relayerVersion": VERSION,
        "apiVersion": API_VERSION,
        "minSupportedSdk": {"typescript": "0.0.4", "python": "0.1.0", "mcp": "0.0.1"},
        "featureFlags": {
            "remember.asyncJobs": True,
            "remember.idempotency": True,
            "memories.forget": True,
            "seal": False,
        },
        "deprecations": [],
        "build": {},
    }


async def health(relayer: Relayer, _: Request) -> Response:
    """Answers `GET /health`."""
    ready = await relayer.memory.ready()
    return reply(
        {
            "status": "ok",
            "version": VERSION,
            **compatibility(),
            "mode": "production",
            "prompt_versions": {"extract": relayer.extractor.version, "ask": "ask.skerry.1"},
            "extractor": relayer.extractor.name,
            "write_ready": ready,
        }
    )


async def version(_relayer: Relayer, _: Request) -> Response:
    """Answers `GET /version`."""
    return reply(compatibility())


async def config(relayer: Relayer, request: Request) -> Response:
    """Answers `GET /config`: the package id, and this server as the address of the chain."""
    return reply(
        {
            "packageId": relayer.keys.package_id,
            "network": "localnet",
            "suiRpcUrl": f"{_address(relayer, request)}/sui",
            "suiGrpcUrl": f"{_address(relayer, request)}/sui",
            "suiTransport": "jsonrpc",
            "rateLimitDisabled": not relayer.limits.on,
        }
    )


def _address(relayer: Relayer, request: Request) -> str:
    """Returns the address under which the client reached this server."""
    if relayer.public_url:
        return relayer.public_url
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        server = request.scope.get("server") or ("127.0.0.1", 8000)
        host = f"{server[0]}:{server[1]}"
    return f"{request.url.scheme}://{host}"


async def metrics(relayer: Relayer, _: Request) -> Response:
    """Answers `GET /metrics` in the text format of Prometheus."""
    lines = [
        "# HELP skerry_relayer_requests_total Answered requests by route and status.",
        "# TYPE skerry_relayer_requests_total counter",
        *(
            f'skerry_relayer_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(relayer.counts.items())
        ),
        "# HELP skerry_relayer_uptime_seconds Seconds since the start.",
        "# TYPE skerry_relayer_uptime_seconds gauge",
        f"skerry_relayer_uptime_seconds {relayer.clock() - relayer.started:.0f}",
        "# HELP skerry_relayer_write_ready 1 while accepted texts become searchable.",
        "# TYPE skerry_relayer_write_ready gauge",
        f"skerry_relayer_write_ready {int(await relayer.memory.ready())}",
    ]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


async def sui(relayer: Relayer, request: Request) -> Response:
    """Answers `POST /sui`, the JSON-RPC of the chain."""
    return reply(chain.answer(await read_body(request, chain.MAX_BYTES), relayer.keys.package_id))


async def blob(relayer: Relayer, request: Request) -> Response:
    """Answers `GET /v1/blobs/{id}` with ciphertext, as an aggregator of Walrus does."""
    blob_id = request.path_params["blob_id"]
    data = await relayer.memory.blob(blob_id) if _BLOB.fullmatch(blob_id) else None
    if data is None:
        return reply({"error": "blob not found"}, 404)
    return Response(data, media_type="application/octet-stream")
