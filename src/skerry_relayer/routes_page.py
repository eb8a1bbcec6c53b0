"""Serves the web page of an owner, which signs its requests in the browser."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from .relayer import Relayer

FOLDER: Final = Path(__file__).parent / "page"
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "index.html": "text/html",
        "style.css": "text/css",
        "main.js": "text/javascript",
        "api.js": "text/javascript",
        "crypto.js": "text/javascript",
    }
)
"""The files of the page; no other file is served."""

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
        " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-cache",
    }
)


async def page(_relayer: Relayer, _request: Request) -> Response:
    """Answers `GET /`."""
    return _file("index.html")


async def part(_relayer: Relayer, request: Request) -> Response:
    """Answers `GET /page/{name}`."""
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    if name not in TYPES:
        return Response(b"", 404)
    return Response((FOLDER / name).read_bytes(), 200, dict(HEADERS), TYPES[name])
