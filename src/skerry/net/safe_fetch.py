"""Fetches URLs that a model or a stranger chose; every such request uses this client."""

import re
import ssl
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType, TracebackType
from typing import Final, Self

import anyio
import httpx2
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.infra.http import Body, BodyTooLargeError, PooledTransport
from skerry.infra.http11 import Head, PlainRequest
from skerry.infra.sockets import connect_addresses
from skerry.net.connect import CheckedConnect, Dial, TargetRefusedError
from skerry.net.decode import ACCEPTED, Decoder, EncodingError
from skerry.net.dns import Resolve, SystemResolver
from skerry.policy.network import NetworkRules, allowing_rule, check_target, next_target
from skerry.policy.urls import Refusal, Target, parse_url

SECONDS: Final = 30.0
"""Time limit of a whole fetch: name resolution, connections, redirects and body; a client may be
made with another."""
MAX_BYTES: Final = 10 * 1024 * 1024
"""Maximum decoded bytes of a body, unless the client is made for larger ones."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_EXTRA_BYTES: Final = 128 * 1024
"""Bytes that the transport accepts beyond the limit; the decoder stops at the limit."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FIELD: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\t\x20-\x7e]*")
_MAX_FIELDS: Final = 100
_BODILESS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
"""Methods whose requests have no `content-length` without a body."""
_PLAIN: Final = re.compile(r"/[\w~%/-]*(?:\?[\w~=&%-]*)?", re.ASCII)
"""Path and query that are sent unchanged, because normalisation would not change them."""
_REPEATING: Final = frozenset({307, 308})
_CROSS_ORIGIN_HEADERS: Final = frozenset({"accept", "accept-language", "user-agent"})
"""Request headers that are also sent to another origin after a redirect."""
_CONNECTION_HEADERS: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive"}
    | {"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that a caller cannot set, because they control the connection."""
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_parsed: Final = lru_cache(maxsize=32)(parse_url)
"""A cache, because the same few URLs of a server are fetched repeatedly."""


class Outcome(StrEnum):
    """Outcome of a fetch."""

    ALLOW = "allow"
    """A response was received; its status may be an error."""
    BLOCK = "block"
    """The policy refused the URL, or the URL of a redirect."""
    ABORT = "abort"
    """The URL is allowed; the connection failed, or a limit ended the fetch."""


class FetchRequest(Struct, frozen=True):
    """One request of a fetch."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    body: bytes = b""
    max_bytes: int = MAX_BYTES
    """Limit of decoded bytes of the body; the limit of the client applies too."""
    seconds: float = SECONDS
    """Time limit of the whole fetch; the limit of the client applies too."""


class Fetched(Struct, frozen=True):
    """Result of a fetch."""

    outcome: Outcome
    rule: str
    """Name of the rule that decided; `public` if no configured rule did."""
    reason: str
    """Explanation of the outcome for people."""
    status: int | None = None
    """HTTP status of the last response; None without a response."""
    final_url: str = ""
    """The URL that was requested or refused last; empty if the URL is not valid."""
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    """Headers of the response; the names are in lower case."""
    body: bytes = b""
    """The decoded body, at most the limit of the request."""
    truncated: bool = False
    """True if `body` has only the first bytes, because a limit of size or time ended the fetch."""


class _Step(Struct):
    """The next request of a fetch, and the state after the earlier ones."""

    target: Target
    method: str
    headers: dict[str, str]
    body: bytes
    visited: list[Target]
    status: int | None = None
    decoder: Decoder | None = None


class SafeClient:
    """Fetches under the network policy; use it as an async context manager.

    It uses no proxy from the environment, stores no cookies, and follows redirects itself. The body
    and most headers of a request are sent to the first origin only.
    """

    def __init__(
        self,
        rules: NetworkRules,
        *,
        resolve: Resolve | None = None,
        dial: Dial = connect_addresses,
        idle_limit: int = 8,
        max_bytes: int = MAX_BYTES,
        seconds: float = SECONDS,
    ) -> None:
        self._rules = rules
        self._max_bytes = max_bytes
        self._seconds = seconds
        self.connect: Final = CheckedConnect(rules, resolve or SystemResolver(), dial)
        """Opens connections under the same policy, for a proxy."""
        self._transport = PooledTransport(connect=self.connect, idle_limit=idle_limit)
        self._allowed = ("", "", 0)
        """Origin of the last allowed target: scheme, host and port."""

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the idle connections."""
        await self._transport.aclose()

    async def fetch(self, request: FetchRequest) -> Fetched:
        """Returns the response, or the rule that refused or ended the fetch.

        Refusals, network errors and limits are results, not exceptions.
        """
        target = _parsed(request.url)
        if isinstance(target, Refusal):
            return Fetched(Outcome.BLOCK, target.rule, target.reason)
        headers = {
            name.lower(): value.strip()
            for name, value in request.headers.items()
            if name.lower() not in _CONNECTION_HEADERS
        }
        step = _Step(target, request.method.upper(), headers, request.body, [])
        if step.method not in _METHODS or not _are_fields(headers):
            return _aborted(step, "request", "The method or a header of the request is not valid.")
        if request.max_bytes > self._max_bytes or request.seconds > self._seconds:
            request = replace(
                request,
                max_bytes=min(request.max_bytes, self._max_bytes),
                seconds=min(request.seconds, self._seconds),
            )
        with anyio.move_on_after(request.seconds):
            return await self._guarded(step, request)
        return _aborted(step, "timeout", f"The fetch took more than {request.seconds:g} s.")

    async def _guarded(self, step: _Step, request: FetchRequest) -> Fetched:
        try:
            return await self._follow(step, request)
        except TargetRefusedError as error:
            return _blocked(step, error.refusal)
        except BodyTooLargeError:
            return _aborted(step, "body-limit", "The body is larger than the limit.")
        except EncodingError as error:
            return _aborted(step, "encoding", str(error))
        except httpx2.HTTPError as error:
            rule = "tls" if isinstance(error.__cause__, ssl.SSLError) else _rule(error)
            return _aborted(step, rule, str(error) or type(error).__name__)

    async def _follow(self, step: _Step, request: FetchRequest) -> Fetched:
        while True:
            refusal = self._refusal(step.target)
            if refusal is not None:
                return _blocked(step, refusal)
            step.visited.append(step.target)
            head, body = await self._transport.exchange(_built(step, request))
            try:
                step.status = head.status
                headers = _headers(head)
                location = headers.get("location")
                if location is None or head.status not in REDIRECTS:
                    return await _read(step, headers, body, request, self._rules)
            finally:
                await body.aclose()
            following = next_target(step.visited, location)
            if isinstance(following, Refusal):
                return _blocked(step, following)
            _redirect(step, following, head.status)

    def _refusal(self, target: Target) -> Refusal | None:
        """Returns the rule that refuses a target; an origin just allowed is not checked again."""
        origin = target.origin
        if origin == self._allowed:
            return None
        refusal = check_target(target, self._rules)
        if refusal is None:
            self._allowed = origin
        return refusal


def _built(step: _Step, request: FetchRequest) -> PlainRequest:
    target, body = step.target, step.body
    fields = [(b"host", target.authority.encode()), (b"accept-encoding", ACCEPTED.encode())]
    fields += [(name.encode(), value.encode()) for name, value in step.headers.items()]
    if body or step.method not in _BODILESS:
        fields.append((b"content-length", b"%d" % len(body)))
    return PlainRequest(
        *target.origin,
        step.method,
        _path(target),
        fields,
        body,
        request.max_bytes + _EXTRA_BYTES,
        request.seconds,
    )


def _path(target: Target) -> bytes:
    """Returns path and query; with dot segments or rare characters they are normalised."""
    if _PLAIN.fullmatch(target.path):
        return target.path.encode()
    return httpx2.URL(target.url).raw_path


def _headers(head: Head) -> dict[str, str]:
    """Returns the headers of a response by lower-case name; equal names are joined with commas."""
    headers: dict[str, str] = {}
    for raw, value in head.headers:
        name, text = raw.decode("latin-1").lower(), _text(value)
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _redirect(step: _Step, target: Target, status: int) -> None:
    """Changes the step for a redirect: another origin receives no credentials and no body."""
    is_elsewhere = target.origin != step.target.origin
    if is_elsewhere:
        step.headers = {
            name: step.headers[name] for name in step.headers.keys() & _CROSS_ORIGIN_HEADERS
        }
    if step.method not in {"GET", "HEAD"} and (is_elsewhere or status not in _REPEATING):
        step.method, step.body = "GET", b""
        step.headers.pop("content-type", None)
    if is_elsewhere:
        step.body = b""
    step.target = target


async def _read(
    step: _Step,
    headers: Mapping[str, str],
    body: Body,
    request: FetchRequest,
    rules: NetworkRules,
) -> Fetched:
    limit = request.max_bytes
    has_body = step.method != "HEAD"
    encoding = headers.get("content-encoding", "") if has_body else ""
    step.decoder = decoder = Decoder(encoding, limit)
    async for data in body:
        if not decoder.feed(data):
            return _aborted(step, "body-limit", f"The body has more than {limit} bytes.")
    decoder.end()
    return Fetched(
        Outcome.ALLOW,
        allowing_rule(step.target, rules),
        f"{step.target.host} answered {step.status}.",
        status=step.status,
        final_url=step.target.url,
        headers=headers,
        body=decoder.body,
    )


def _blocked(step: _Step, refusal: Refusal) -> Fetched:
    prefix = f"Redirect {len(step.visited)}: " if len(step.visited) > 1 else ""
    return Fetched(
        Outcome.BLOCK,
        refusal.rule,
        prefix + refusal.reason,
        status=step.status,
        final_url=step.target.url,
    )


def _aborted(step: _Step, rule: str, reason: str) -> Fetched:
    body = step.decoder.body if step.decoder is not None else b""
    return Fetched(
        Outcome.ABORT,
        rule,
        reason,
        status=step.status,
        final_url=step.target.url,
        body=body,
        truncated=rule in {"body-limit", "timeout"} and step.decoder is not None,
    )


def _are_fields(headers: Mapping[str, str]) -> bool:
    fields = (f"{name}:{value}" for name, value in headers.items())
    return len(headers) <= _MAX_FIELDS and all(map(_FIELD.fullmatch, fields))


def _rule(error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "timeout"
    return "connect" if isinstance(error, httpx2.ConnectError) else "protocol"
