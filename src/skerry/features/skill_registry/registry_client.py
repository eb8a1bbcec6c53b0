"""Client of a registry of skills with ClawHub's HTTP API, version 1.

Sources: `docs/http-api.md`, `convex/httpApiV1/skillsV1.ts`, `convex/downloads.ts` and
`packages/clawhub/src/discovery.ts` of github.com/openclaw/clawhub: `/.well-known/clawhub.json`,
`GET /api/v1/search`, `/skills/{slug}`, `/skills/{slug}/versions/{version}`, `/download`, and
`POST /api/v1/skills` as a form with `payload` and `files`.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from skerry.features.skill_registry.content import SLUG, VERSION
from skerry.features.skill_registry.errors import RegistryError
from skerry.net.safe_fetch import MAX_BYTES, Fetched, FetchRequest, Outcome, SafeClient
from skerry.policy.urls import Refusal, parse_url

T = TypeVar("T")
WELL_KNOWN: Final = "/.well-known/clawhub.json"
SEARCH_LIMIT: Final = 50
_JSON_BYTES: Final = 2 * 1024 * 1024
_REASON: Final = 200
_OK: Final = range(200, 300)
_NOT_FOUND: Final = 404
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_BLOCKED: Final = frozenset({403, 410, 423, 451})
"""Statuses of a skill that moderation hides, holds or has removed."""
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9._/ -]+")


class SearchResult(msgspec.Struct, frozen=True, rename="camel"):
    """A skill that matches a query."""

    slug: str | None = None
    display_name: str | None = None
    summary: str | None = None
    version: str | None = None
    score: float = 0.0
    updated_at: float | None = None


class _Search(msgspec.Struct, frozen=True):
    results: tuple[SearchResult, ...]


class Moderation(msgspec.Struct, frozen=True, rename="camel"):
    """Judgement of the registry about a skill. Its two flags are required: without them, refuse."""

    is_suspicious: bool
    is_malware_blocked: bool
    verdict: str | None = None
    reason_codes: tuple[str, ...] = ()
    summary: str | None = None

    @property
    def is_blocked(self) -> bool:
        """Returns whether no version may be installed."""
        return self.is_malware_blocked or self.verdict == "malicious"

    @property
    def is_flagged(self) -> bool:
        """Returns whether a person must accept the skill explicitly."""
        return self.is_suspicious or self.verdict not in {None, "clean"}


class _Skill(msgspec.Struct, frozen=True, rename="camel"):
    slug: str
    display_name: str = ""
    summary: str | None = None


class _Latest(msgspec.Struct, frozen=True):
    version: str


class Publisher(msgspec.Struct, frozen=True, rename="camel"):
    """Publisher of a skill."""

    handle: str | None = None
    display_name: str | None = None


class SkillPage(msgspec.Struct, frozen=True, rename="camel"):
    """A skill of the registry."""

    skill: _Skill
    latest_version: _Latest | None = None
    owner: Publisher | None = None
    moderation: Moderation | None = None

    @property
    def handle(self) -> str:
        """Returns the handle of the publisher, or an empty text."""
        return (self.owner.handle if self.owner else None) or ""


class PublishedFile(msgspec.Struct, frozen=True):
    """A file of a published version."""

    path: str
    sha256: str


class _Security(msgspec.Struct, frozen=True):
    status: str | None = None


class SkillVersion(msgspec.Struct, frozen=True):
    """A published version."""

    version: str
    changelog: str = ""
    files: tuple[PublishedFile, ...] = ()
    security: _Security | None = None

    @property
    def verdict(self) -> str:
        """Returns the result of the registry's scan: `clean`, `suspicious`, ..., or empty."""
        return (self.security.status if self.security else None) or ""


class _Version(msgspec.Struct, frozen=True):
    version: SkillVersion


class _Published(msgspec.Struct, frozen=True, rename="camel"):
    ok: bool
    version_id: str = ""


class _Discovery(msgspec.Struct, frozen=True, rename="camel"):
    api_base: str | None = None
    registry: str | None = None


class Draft(msgspec.Struct, frozen=True):
    """A version to publish."""

    slug: str
    display_name: str
    version: str
    changelog: str
    files: Mapping[str, bytes]


class RegistryClient:
    """Sends requests to one registry. Every method raises `RegistryError`."""

    def __init__(self, http: SafeClient, url: str, token: str = "") -> None:
        self._http = http
        self._base = url.rstrip("/")
        self._token = token
        self._is_discovered = False

    async def search(self, query: str, limit: int) -> tuple[SearchResult, ...]:
        """Returns the skills that match a query, the best first."""
        page = await self._get("/search", {"q": query, "limit": str(limit)}, _Search)
        return tuple(result for result in page.results if SLUG.fullmatch(result.slug or ""))[:limit]

    async def skill(self, slug: str) -> SkillPage:
        """Returns a skill; the status of the error is 404 if there is none."""
        page = await self._get(f"/skills/{quote(slug)}", {}, SkillPage)
        latest = page.latest_version
        if page.skill.slug != slug or (latest and not VERSION.fullmatch(latest.version)):
            raise RegistryError(
                f"The registry sent another skill than {slug}, or an invalid version.",
                f"Its name may have changed: skerry skills search {slug}",
            )
        return page

    async def version(self, slug: str, version: str) -> SkillVersion:
        """Returns a version with the hashes of its files."""
        path = f"/skills/{quote(slug)}/versions/{quote(version, safe='')}"
        return (await self._get(path, {}, _Version)).version

    async def download(self, slug: str, version: str) -> bytes:
        """Returns the zip archive of a version."""
        parameters = {"slug": slug, "version": version}
        fetched = await self._fetch("/download", parameters, max_bytes=MAX_BYTES)
        if not fetched.body.startswith(b"PK"):
            raise RegistryError(
                f"The registry sent no archive of {slug} {version}.",
                "It may be kept elsewhere: look at its page.",
            )
        return fetched.body

    async def publish(self, draft: Draft) -> str:
        """Publishes a version; returns its id in the registry."""
        payload = {
            "slug": draft.slug,
            "displayName": draft.display_name,
            "version": draft.version,
            "changelog": draft.changelog,
            "acceptLicenseTerms": True,
            "tags": ["latest"],
        }
        boundary = secrets.token_hex(16)
        body = _form(boundary, payload, draft.files)
        if len(body) > MAX_BYTES:
            raise RegistryError("The skill is too large to be published.", "Remove large files.")
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        fetched = await self._fetch("/skills", {}, method="POST", headers=headers, body=body)
        return _decoded(fetched, _Published).version_id

    async def _get(self, path: str, parameters: Mapping[str, str], kind: type[T]) -> T:
        return _decoded(await self._fetch(path, parameters), kind)

    async def _fetch(
        self,
        path: str,
        parameters: Mapping[str, str],
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_bytes: int = _JSON_BYTES,
    ) -> Fetched:
        """Returns a successful response, whose body is complete."""
        await self._discover()
        query = f"?{urlencode(parameters)}" if parameters else ""
        sent = {"accept": "application/json", **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        url = f"{self._base}/api/v1{path}{query}"
        fetched = await self._http.fetch(FetchRequest(url, method, sent, body, max_bytes))
        _check(fetched, self._base)
        return fetched

    async def _discover(self) -> None:
        """Reads the address of the API once."""
        if self._is_discovered:
            return
        request = FetchRequest(f"{self._base}{WELL_KNOWN}", max_bytes=_JSON_BYTES)
        fetched = await self._http.fetch(request)
        if fetched.outcome is not Outcome.ALLOW:
            _check(fetched, self._base)
        self._is_discovered = True
        if fetched.status not in _OK:
            return
        document = _decoded(fetched, _Discovery)
        base = (document.api_base or document.registry or self._base).rstrip("/")
        target, configured = parse_url(base), parse_url(self._base)
        if isinstance(target, Refusal) or isinstance(configured, Refusal):
            raise RegistryError(f"{self._base} names an invalid address: {base[:80]!r}.")
        if not (target.scheme == "https" or target.origin == configured.origin):
            raise RegistryError(f"{self._base} names an address without https: {base!r}.")
        self._base = base


def _check(fetched: Fetched, base: str) -> None:
    """Raises `RegistryError` for a fetch without a complete successful response."""
    if fetched.outcome is not Outcome.ALLOW:
        raise RegistryError(
            f"The registry {base} was not reached: {fetched.reason}",
            "Check the network, or `skills.registry.url`.",
        )
    status = fetched.status or 0
    if status in _OK:
        return
    text = " ".join(fetched.body[:_REASON].decode("utf-8", "replace").split())
    reason = "".join(filter(str.isprintable, text)) or "no reason given"
    message = f"The registry answered {status}: {reason}"
    if status == _TOO_MANY:
        seconds = fetched.headers.get("retry-after", "")
        remedy = f"Wait {seconds} s and repeat." if seconds.isdigit() else "Wait and repeat."
    elif status in _BLOCKED:
        remedy = "The registry withholds this skill; do not use it."
    elif status == _UNAUTHORIZED:
        remedy = "Create a new token on its page."
    elif status == _NOT_FOUND:
        remedy = "Find its name: skerry skills search WORDS"
    else:
        remedy = "Repeat later." if status >= _SERVER_ERROR else "Correct the value that it names."
    raise RegistryError(message, remedy, status)


def _decoded(fetched: Fetched, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(fetched.body, type=kind)
    except msgspec.DecodeError as error:
        raise RegistryError(
            f"The registry sent an invalid response: {error}", "It may have changed its API."
        ) from error


def _form(boundary: str, payload: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """Returns a form with the field `payload` and each file as `files` (RFC 7578)."""
    mark = f"--{boundary}\r\n".encode()
    parts: list[bytes] = [
        mark,
        b'content-disposition: form-data; name="payload"\r\n\r\n',
        msgspec.json.encode(payload),
        b"\r\n",
    ]
    for path, data in sorted(files.items()):
        head = f'content-disposition: form-data; name="files"; filename="{_file_name(path)}"\r\n'
        parts += [mark, head.encode(), b"content-type: text/plain\r\n\r\n", data, b"\r\n"]
    return b"".join([*parts, f"--{boundary}--\r\n".encode()])


def _file_name(path: str) -> str:
    if _SAFE_NAME.fullmatch(path) is None:
        raise RegistryError(
            f"The file name {path!r} cannot be published.", "Use letters, digits, - _ and . only."
        )
    return path


def ranked(results: Sequence[SearchResult]) -> list[dict[str, Any]]:
    """Returns search results as objects for JSON."""
    return [
        {
            "slug": result.slug,
            "name": result.display_name or "",
            "summary": result.summary or "",
            "version": result.version or "",
            "score": result.score,
        }
        for result in results
    ]
