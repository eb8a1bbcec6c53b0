"""Strict registry of skills on loopback, with ClawHub's HTTP API (sources: `registry_client`).

It accepts only requests that the real one would: known paths and parameters, a token to publish.
"""

import hashlib
import io
import zipfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any, Final, Self

import anyio
import msgspec

from skerry.testing.http_server import ServedRequest, ServedResponse, serve

TOKEN: Final = "clh_fake"  # noqa: S105 - of no account
_API: Final = "/api/v1/"


@dataclass(slots=True)
class RegistrySkill:
    """A skill of the registry."""

    versions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by path, by version, the newest last."""
    summary: str = ""
    owner: str = "alice"
    moderation: Any = None
    security: Any = None
    """Result of the registry's scan, for all versions."""


@dataclass(slots=True)
class SkillRegistryServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block."""

    url: str = ""
    """Address; set inside the block."""
    skills: dict[str, RegistrySkill] = field(default_factory=dict)
    requests: list[ServedRequest] = field(default_factory=list)
    published: list[dict[str, Any]] = field(default_factory=list)
    """Payloads of the published versions."""
    planned: dict[str, ServedResponse] = field(default_factory=dict)
    """Response instead of the usual one, by path."""
    discovery: Mapping[str, str] | None = None
    """Content of the well-known file; None for none."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with serve(self._handle) as self.url:
            yield self

    def add(self, slug: str, version: str, files: Mapping[str, str | bytes], **about: Any) -> None:
        """Adds a version of a skill, as its newest."""
        skill = self.skills.setdefault(slug, RegistrySkill())
        for name, value in about.items():
            setattr(skill, name, value)
        skill.versions[version] = {
            path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()
        }

    async def _handle(self, request: ServedRequest) -> ServedResponse:
        self.requests.append(request)
        if (planned := self.planned.get(request.path)) is not None:
            return planned
        if request.path == "/.well-known/clawhub.json" and self.discovery is not None:
            return ServedResponse.of(self.discovery)
        parts = request.path.removeprefix(_API).split("/")
        match (request.method, *parts):
            case ("GET", "search"):
                response = self._search(request.query)
            case ("GET", "skills", slug) if slug in self.skills:
                response = self._skill(slug)
            case ("GET", "skills", slug, "versions", version) if slug in self.skills:
                response = self._version(slug, version)
            case ("GET", "download"):
                response = self._download(request.query)
            case ("POST", "skills"):
                response = self._publish(request)
            case _:
                response = _text("Skill not found", 404)
        return response

    def _search(self, query: Mapping[str, str]) -> ServedResponse:
        words = query["q"].lower().split()
        results = [
            {
                "score": 1.0,
                "slug": slug,
                "displayName": slug.title(),
                "summary": skill.summary,
                "version": list(skill.versions)[-1],
                "updatedAt": 1_730_000_000_000,
            }
            for slug, skill in self.skills.items()
            if all(word in f"{slug} {skill.summary}".lower() for word in words)
        ]
        return ServedResponse.of({"results": results[: int(query.get("limit", "20"))]})

    def _skill(self, slug: str) -> ServedResponse:
        skill = self.skills[slug]
        latest = list(skill.versions)[-1]
        return ServedResponse.of(
            {
                "skill": {
                    "slug": slug,
                    "displayName": slug.title(),
                    "summary": skill.summary,
                    "tags": {"latest": latest},
                    "stats": {},
                    "createdAt": 0,
                    "updatedAt": 0,
                },
                "latestVersion": {"version": latest, "createdAt": 0, "changelog": ""},
                "metadata": None,
                "owner": {"handle": skill.owner, "displayName": None, "image": None},
                "moderation": skill.moderation,
            }
        )

    def _version(self, slug: str, version: str) -> ServedResponse:
        files = self.skills[slug].versions.get(version)
        if files is None:
            return _text("Version not found", 404)
        listed = [
            {
                "path": path,
                "size": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "contentType": "text/plain",
            }
            for path, data in files.items()
        ]
        about = {"version": version, "createdAt": 0, "changelog": "", "files": listed}
        if self.skills[slug].security is not None:
            about["security"] = self.skills[slug].security
        return ServedResponse.of({"skill": {"slug": slug}, "version": about})

    def _download(self, query: Mapping[str, str]) -> ServedResponse:
        skill = self.skills.get(query["slug"])
        files = skill.versions.get(query["version"]) if skill is not None else None
        if files is None:
            return _text("Version not found", 404)
        meta = msgspec.json.encode({"slug": query["slug"], "version": query["version"]})
        return ServedResponse(zipped({**files, "_meta.json": meta}), content_type="application/zip")

    def _publish(self, request: ServedRequest) -> ServedResponse:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _text("Unauthorized", 401)
        parts = _parts(request)
        payload: dict[str, Any] = next(
            (msgspec.json.decode(data) for name, _, data in parts if name == "payload"), {}
        )
        files = {path: data for name, path, data in parts if name == "files"}
        if payload.get("acceptLicenseTerms") is not True:
            return _text("MIT-0 license terms must be accepted to publish skills", 400)
        if not {"slug", "displayName", "version", "changelog"} <= payload.keys() or not files:
            return _text("Publish payload is not valid", 400)
        skill = self.skills.get(payload["slug"])
        if skill is not None and payload["version"] in skill.versions:
            return _text("Version already exists", 400)
        self.published.append(payload)
        self.add(payload["slug"], payload["version"], files)
        return ServedResponse.of({"ok": True, "skillId": "s1", "versionId": "v1"})


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Returns a zip archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _parts(request: ServedRequest) -> list[tuple[str, str, bytes]]:
    """Returns name, file name and content of each field of a form."""
    head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
    return [
        (
            str(part.get_param("name", header="content-disposition")),
            part.get_filename() or "",
            bytes(part.get_payload(decode=True)),
        )
        for part in BytesParser().parsebytes(head + request.body).walk()
        if not part.is_multipart()
    ]


def _text(text: str, status: int) -> ServedResponse:
    return ServedResponse(text.encode(), status, "text/plain; charset=utf-8")
