"""Serves the files in `canvas/` of workspaces to nodes, apart from the page of the gateway.

The pages are written by agents, and have the address of the gateway. So that a browser gives their
scripts no access to the gateway's page, each response has the policy `sandbox`: the document has an
origin of its own, without storage, and requests from it have the origin `null`, which the gateway
refuses.
"""

from pathlib import PurePosixPath
from typing import Final

import anyio.to_thread
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.features.nodes.capability import CANVAS, CAPABILITIES, agent_of
from skerry.features.nodes.config import CanvasHostConfig
from skerry.gateway import bearer
from skerry.gateway.context import GatewayContext
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.ids import AgentId
from skerry.policy.decide import Actor

FOLDER: Final = "canvas"
"""Directory of a workspace."""
INDEX: Final = "index.html"
MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of one file, in bytes."""
_MAX_PATH: Final = 1024
_TEXT: Final = "text/plain; charset=utf-8"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".gif": "image/gif",
    ".htm": "text/html; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": _TEXT,
    ".webm": "video/webm",
    ".webp": "image/webp",
}
"""Media types of the served files; others are not served."""


class CanvasFile(Struct, frozen=True):
    """Content of a served file."""

    content: bytes
    media_type: str


def read(config: Config, agent: AgentId, path: str) -> CanvasFile | None:
    """Returns a file of the agent's pages; None if it is missing, or must not be served.

    `path` is opened from the workspace, so that `canvas` itself may be no link either.
    """
    name = f"{path}{INDEX}" if not path or path.endswith("/") else path
    parts = PurePosixPath(name).parts
    media_type = TYPES.get(PurePosixPath(name).suffix.lower())
    hidden = any(part.startswith(".") for part in parts)
    if media_type is None or hidden or len(name) > _MAX_PATH or name.startswith("/"):
        return None
    folder = RootedFolder(config.workspace(agent), gate(config, Actor()))
    try:
        with folder.open(f"{FOLDER}/{name}") as file:
            content = file.read(MAX_BYTES + 1)
    except (EscapeError, OSError, UnicodeEncodeError):
        return None
    return CanvasFile(content, media_type) if len(content) <= MAX_BYTES else None


class CanvasPages:
    """Serves the pages for requests with a capability, or with the token of the gateway."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def serve(self, request: Request) -> Response:
        """Returns the file; 401 without the token, 404 for all else that is not served."""
        config = self._context.config()
        if not config.section(CanvasHostConfig).enabled:
            return _missing("")
        if request.scope["path"].startswith(f"{CAPABILITIES}/"):
            return await self._for_node(config, request)
        refusal = await bearer.refusal(self._context, request)
        if refusal is not None:
            return refusal
        path = request.path_params["path"]
        return await _answer(config, config.agents.default_id, path, request, "")

    async def _for_node(self, config: Config, request: Request) -> Response:
        text, _, rest = request.path_params["path"].partition("/")
        agent = agent_of(text, self._context.nodes.all(), config.agents.ids)
        inner = f"{CANVAS.removeprefix('/')}/"
        if agent is None or not rest.startswith(inner):
            return _missing("")
        base = f"{request.headers['host']}{CAPABILITIES}/{text}{CANVAS}/"
        return await _answer(config, agent, rest.removeprefix(inner), request, base)


async def _answer(
    config: Config, agent: AgentId, path: str, request: Request, base: str
) -> Response:
    if request.method not in {"GET", "HEAD"}:
        return Response("Use GET.\n", 405, {"allow": "GET, HEAD"}, _TEXT)
    file = await anyio.to_thread.run_sync(read, config, agent, path)
    if file is None:
        return _missing(base)
    headers = {**_headers(base), "content-type": file.media_type}
    return Response(b"" if request.method == "HEAD" else file.content, headers=headers)


def _missing(base: str) -> Response:
    return Response("Not found.\n", 404, _headers(base), _TEXT)


def _headers(base: str) -> dict[str, str]:
    """Returns the headers of all responses; pages load files below `base` only."""
    headers = {
        "cache-control": "no-store",
        "content-security-policy": _policy(base),
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
        "x-frame-options": "DENY",
    }
    if base:  # the sandboxed page itself is of another origin
        headers["cross-origin-resource-policy"] = "cross-origin"
    return headers


def _policy(base: str) -> str:
    """Returns the content security policy. `base` is below a checked host, without its scheme."""
    base = "'self'" if base.startswith("[") else base  # a policy has no IPv6 addresses
    inline = f"{base} 'unsafe-inline'".strip()
    return (
        f"sandbox allow-scripts; default-src 'none'; script-src {inline}; style-src {inline};"
        f" img-src {base} data: blob:; media-src {base} data: blob:; font-src data:;"
        f" connect-src 'none'; worker-src 'none'; child-src 'none'; manifest-src 'none';"
        " form-action 'none'; base-uri 'none'; frame-ancestors 'none'; webrtc 'block'"
    )


def make(context: GatewayContext) -> CanvasPages:
    """Returns the handler."""
    return CanvasPages(context)
