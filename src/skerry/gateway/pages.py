"""Serves the static page: a few files, read together at the first request."""

import gzip
import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}


_Files = dict[str, tuple[bytes, str, str]]
"""Content, media type and tag by path."""


class Pages:
    """The files in a folder by path; only these can be requested."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: _Files | None = None
        self._small: dict[str, bytes] = {}

    async def serve(self, request: Request) -> Response:
        """Returns a file, 304 when the browser has it, or 404."""
        path = request.scope["path"]
        if self._files is None:
            self._files = _read(self._folder)
        file = self._files.get("/index.html" if path == "/" else path)
        if file is None:
            return Response("Not found.\n", 404, media_type="text/plain")
        content, kind, tag = file
        headers = {
            "etag": tag,
            "cache-control": "no-cache",
            "content-security-policy": _policy(request.headers["host"]),
        }
        headers["vary"] = "accept-encoding"
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            content = self._compressed(tag, content)
        return Response(content, headers={**headers, "content-type": kind})

    def _compressed(self, tag: str, content: bytes) -> bytes:
        """Returns the compressed content, computed at the first request."""
        if tag not in self._small:
            self._small[tag] = gzip.compress(content, mtime=0)
        return self._small[tag]


def _read(folder: Path) -> _Files:
    files: _Files = {}
    for file in sorted(folder.rglob("*")):
        media_type = _TYPES.get(file.suffix)
        if media_type is not None and file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            files["/" + file.relative_to(folder).as_posix()] = (content, media_type, tag)
    return files


def _policy(host: str) -> str:
    """Returns the content security policy: only files of this gateway. `host` is checked before."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        f" connect-src 'self' ws://{host} wss://{host}; frame-ancestors 'none'; base-uri 'none';"
        " form-action 'none'; require-trusted-types-for 'script'; trusted-types skerry-markdown"
    )
