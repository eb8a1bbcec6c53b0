"""Signed requests to a MemWal server, with limits of time and size and strict parsing."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from skerry.sdk.errors import SkerryError
from skerry.sdk.fetch import Fetched, Outcome, PluginServer
from skerry_memwal.signing import Signer

T = TypeVar("T")
_LOCAL: Final = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::(\d{1,5}))?")
_PORT: Final = "8000"
"""Port of `skerry relayer serve` without options."""
MAX_REPLY: Final = 4 * 1024 * 1024
"""Maximum size of a reply in bytes."""
MAX_ANALYZE: Final = 65_536
"""Maximum size of a text to analyze, in bytes; the server refuses a longer text."""
_MAX_ERROR: Final = 200
_OK: Final = 200
_MULTIPLE: Final = 300
_TOO_MANY: Final = 429
_SERVER: Final = 500
_DRIFT: Final = "ERR_TIMESTAMP_OUT_OF_BOUNDS"
_NO_ROUTE: Final = 404


class MemWalError(SkerryError):
    """A MemWal server refused a request, or did not answer it."""

    code = "memwal"

    def __init__(
        self, message: str, remedy: str = "", *, status: int | None = None, retry: bool = False
    ) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.status = status
        """Status of the answer; None without one."""
        self.retry = retry
        """True when the same request may succeed later."""


class Recalled(Struct, frozen=True):
    """A memory as a recall returns it."""

    blob_id: str
    text: str
    distance: float
    """Cosine distance, 0 to 2."""
    created_at: str = ""

    @property
    def relevance(self) -> float:
        """Returns 1 minus the distance, limited to [0, 1]."""
        return max(0.0, min(1.0, 1.0 - self.distance))


class _Results(Struct, frozen=True):
    results: list[Recalled]


class Fact(Struct, frozen=True):
    """A fact that the server found in a text."""

    text: str
    id: str = ""
    job_id: str = ""


class _Analyzed(Struct, frozen=True):
    facts: list[Fact] = []


class Health(Struct, frozen=True, rename="camel"):
    """State of the server."""

    status: str
    version: str = ""
    api_version: str = ""
    write_ready: bool = msgspec.field(default=True, name="write_ready")
    extractor: str = ""


class _Config(Struct, frozen=True, rename="camel"):
    package_id: str


class Accepted(Struct, frozen=True):
    """A text that the server accepted."""

    job_id: str
    status: str


class Job(Struct, frozen=True):
    """State of a text that the server accepted: running, uploaded, done or failed."""

    job_id: str
    status: str
    blob_id: str | None = None
    error: str | None = None


class Stats(Struct, frozen=True):
    """Size of a namespace."""

    memory_count: int
    storage_bytes: int
    namespace: str
    owner: str


class Deleted(Struct, frozen=True):
    """Number of deleted memories."""

    deleted: int


class Client:
    """One account at one server.

    Args:
        server: Reaches the server; from `api.http.server`.
        url: Address of the server, without a slash at its end.
        signer: Signs the requests.
        seconds: Limit of a request, in seconds.

    """

    def __init__(self, server: PluginServer, url: str, signer: Signer, seconds: float) -> None:
        self.server = server
        self.url = url
        self.signer = signer
        self.seconds = seconds
        self._package = ""

    async def health(self) -> Health:
        """Returns the state of the server, which needs no signature.

        Raises:
            MemWalError: the server cannot be reached.
        """
        return self._read(await self._send("GET", "/health", b"", {}), Health)

    async def recall(self, query: str, limit: int, namespace: str) -> Sequence[Recalled]:
        """Returns the memories nearest to a text, the nearest first.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        body = {"query": query, "limit": limit, "namespace": namespace}
        reply = await self._signed("POST", "/api/recall", body)
        return self._read(reply, _Results).results

    async def analyze(
        self, text: str, namespace: str, *, occurred_at: str = "", key: str = ""
    ) -> Sequence[Fact]:
        """Makes the server extract facts from a text and store them; returns the facts.

        Args:
            text: At most `MAX_ANALYZE` bytes.
            namespace: Namespace of the facts.
            occurred_at: Time of the text, from which "last Friday" is resolved.
            key: Idempotency key: two requests with one key store the facts once.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        body = {"text": text, "namespace": namespace}
        if occurred_at:
            body["occurred_at"] = occurred_at
        if key:
            body["idempotency_key"] = key
        return self._read(await self._signed("POST", "/api/analyze", body), _Analyzed).facts

    async def remember(self, text: str, namespace: str, key: str = "") -> Accepted:
        """Stores a text unchanged.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        body = {"text": text, "namespace": namespace}
        if key:
            body["idempotency_key"] = key
        return self._read(await self._signed("POST", "/api/remember", body), Accepted)

    async def job(self, job_id: str) -> Job:
        """Returns the state of a text that the server accepted.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        path = f"/api/remember/{quote(job_id, safe='')}"
        return self._read(await self._signed("GET", path, None), Job)

    async def stats(self, namespace: str) -> Stats:
        """Returns the size of a namespace.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        reply = await self._signed("POST", "/api/stats", {"namespace": namespace}, seal=False)
        return self._read(reply, Stats)

    async def forget_namespace(self, namespace: str) -> int:
        """Deletes all memories of a namespace; returns their number.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        reply = await self._signed("POST", "/api/forget", {"namespace": namespace})
        return self._read(reply, Deleted).deleted

    async def forget(self, ids: Sequence[str]) -> int:
        """Deletes single memories by their blob ids; returns the number of deleted memories.

        Raises:
            MemWalError: the server refused, did not answer, or cannot forget single memories.
        """
        reply = await self._signed("POST", "/api/memories/forget", {"ids": list(ids)})
        return self._read(reply, Deleted).deleted

    async def check(self) -> None:
        """Checks the prerequisites of this client other than the server; this class has none.

        Raises:
            MemWalError: a prerequisite is missing.
        """

    async def every(self, namespace: str) -> Sequence[Recalled] | None:
        """Returns all memories of a namespace; None if the server returns texts only to queries."""
        del namespace
        return None

    async def _signed(
        self,
        method: str,
        path: str,
        fields: Mapping[str, object] | None,
        *,
        seal: bool = True,
    ) -> Fetched:
        body = b"" if fields is None else msgspec.json.encode(fields)
        headers = self.signer.headers(method, path, body)
        if seal:
            headers["x-seal-session"] = self.signer.session(await self._package_id())
        return await self._send(method, path, body, headers)

    async def _package_id(self) -> str:
        """Returns the package id for certificates; it is requested once."""
        if not self._package:
            reply = await self._send("GET", "/config", b"", {})
            self._package = self._read(reply, _Config).package_id
        return self._package

    async def _send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Fetched:
        reply = await self.server.fetch(
            f"{self.url}{path}",
            method=method,
            headers=headers,
            body=body,
            max_bytes=MAX_REPLY,
            seconds=self.seconds,
        )
        if reply.outcome is not Outcome.ALLOW or reply.status is None:
            reason = reply.reason.rstrip(".")
            message = f"The MemWal server {self.url} did not answer {path}: {reason}."
            raise MemWalError(message, _start(self.url), retry=True)
        if not _OK <= reply.status < _MULTIPLE:
            raise refusal(path, reply)
        return reply

    def _read(self, reply: Fetched, kind: type[T]) -> T:
        decode: Callable[..., T] = msgspec.json.decode
        try:
            return decode(reply.body, type=kind)
        except msgspec.MsgspecError as error:
            raise MemWalError(
                f"The MemWal server {self.url} sent an invalid answer: {error}",
                "Check serverUrl: the address must be that of a MemWal server.",
            ) from error


def _start(url: str) -> str:
    """Returns the remedy for a server that does not answer; a local server can be started."""
    local = _LOCAL.fullmatch(url)
    if local is None:
        return f"Check whether it runs: curl {url}/health"
    port = "" if local[1] in {None, _PORT} else f" --port {local[1]}"
    return f"Start it: skerry relayer serve{port}"


def refusal(path: str, reply: Fetched) -> MemWalError:
    """Returns the error for an answer with an error status."""
    status = reply.status or 0
    text = _error_text(reply.body)
    message = f"The MemWal server answered {path} with {status}{f': {text}' if text else '.'}"
    remedy = ""
    if status == 401:  # noqa: PLR2004 - unauthorized
        remedy = "Check that privateKey is a key of accountId and was not revoked."
        if reply.headers.get("x-auth-error") == _DRIFT:
            remedy = "Set the clock of this machine: it differs from the server's."
    elif status == 426:  # noqa: PLR2004 - upgrade required
        remedy = "The server wants a newer client."
    elif status == 402:  # noqa: PLR2004 - payment required, which stands for the quota
        remedy = "Delete memories, or raise the quota of the account."
    return MemWalError(
        message, remedy, status=status, retry=status == _TOO_MANY or status >= _SERVER
    )


def _error_text(body: bytes) -> str:
    try:
        tree: Any = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return ""
    text = tree.get("error", "") if isinstance(tree, dict) else ""
    return text[:_MAX_ERROR] if isinstance(text, str) else ""
