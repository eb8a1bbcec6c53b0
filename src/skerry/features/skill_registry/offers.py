"""Downloads a version of a skill and examines it, before a person decides about it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.features.skill_registry.content import (
    SLUG,
    VERSION,
    content_hash,
    files_of,
    skill_of,
)
from skerry.features.skill_registry.errors import BlockedError, RegistryError, SkillError
from skerry.features.skill_registry.registry_client import (
    Moderation,
    RegistryClient,
    SkillPage,
    SkillVersion,
)
from skerry.features.skill_registry.scan import Finding, Severity, findings_of
from skerry.features.skill_registry.unpacking import SKILL_LIMITS, unpacked
from skerry.model.skill import Skill

_REGISTRY: Final = "(registry)"
"""Path of a finding that the registry made."""
_MALICIOUS: Final = "malicious"
_UNFINISHED: Final = frozenset({"pending", "error", "not-run", "unknown"})
"""Results of a scan of the registry that is not complete."""


class Offer(Struct, frozen=True):
    """A downloaded and examined version."""

    slug: str
    version: str
    owner: str
    """Handle of the publisher; empty if unknown."""
    files: Mapping[str, bytes]
    skill: Skill
    findings: tuple[Finding, ...]
    """Findings of the registry and of our scan, the severe ones first."""
    sha256: str
    """Hash of the files."""


def checked_slug(slug: str) -> str:
    """Returns the slug. Raises `SkillError` if it is not one."""
    if SLUG.fullmatch(slug) is None:
        raise SkillError(
            f"{slug[:80]!r} is not the name of a skill in a registry.",
            "Use up to 64 of a-z, 0-9 and -, as `skerry skills search` prints it.",
        )
    return slug


async def newest(client: RegistryClient, slug: str) -> tuple[SkillPage, str]:
    """Returns a skill that the registry does not block, and its newest version.

    Raises:
        BlockedError: the registry calls the skill malware.
        RegistryError: there is no such skill, or no version.
    """
    page = await client.skill(slug)
    if page.moderation is not None and page.moderation.is_blocked:
        raise BlockedError(
            f"The registry blocks {slug} as malware{_reasons(page.moderation)}.",
            "Do not install it; there is no option to do so.",
        )
    if page.latest_version is None:
        raise RegistryError(f"{slug} has no published version.", "Choose another skill.")
    return page, page.latest_version.version


async def offer(client: RegistryClient, page: SkillPage, version: str) -> Offer:
    """Downloads and examines a version.

    Raises:
        SkillError: the archive or the SKILL.md is not acceptable, or differs from what the registry
            lists.
        BlockedError: the registry calls the version malicious.
        RegistryError: the registry does not have it, or withholds it.
    """
    slug = page.skill.slug
    if VERSION.fullmatch(version) is None:
        raise SkillError(f"{version[:80]!r} is not a version.", "Write it as 1.2.3.")
    published = await client.version(slug, version)
    if published.version != version:
        raise RegistryError(f"The registry sent another version than {slug} {version}.")
    if published.verdict == _MALICIOUS:
        raise BlockedError(
            f"The registry calls {slug} {version} malicious.",
            "Do not install it; there is no option to do so.",
        )
    files = files_of(unpacked(await client.download(slug, version), SKILL_LIMITS))
    _check_listed(files, published)
    findings = [*_of_registry(page.moderation, published), *findings_of(files)]
    findings.sort(key=lambda finding: finding.severity is not Severity.SEVERE)
    return Offer(
        slug,
        version,
        page.handle,
        files,
        skill_of(files, Path(slug)),
        tuple(findings),
        content_hash(files),
    )


def _check_listed(files: Mapping[str, bytes], published: SkillVersion) -> None:
    """Compares the files with the hashes that the registry lists for the version."""
    listed = {file.path: file.sha256.lower() for file in published.files}
    if not listed:
        return
    wrong = [
        path for path, data in files.items() if hashlib.sha256(data).hexdigest() != listed.get(path)
    ]
    if wrong:
        raise SkillError(
            f"The archive differs from the list of the registry: {wrong[0]!r}.",
            "Repeat later; if it stays so, tell the operator of the registry.",
        )


def _of_registry(moderation: Moderation | None, published: SkillVersion) -> list[Finding]:
    findings = []
    if moderation is not None and moderation.is_flagged:
        reason = f"the registry calls it suspicious{_reasons(moderation)}"
        findings.append(Finding(Severity.SEVERE, "moderation", _REGISTRY, 0, reason))
    verdict = published.verdict
    if verdict and verdict != "clean":
        severity = Severity.WARNING if verdict in _UNFINISHED else Severity.SEVERE
        reason = f"the scan of the registry says: {verdict[:40]}"
        findings.append(Finding(severity, "registry-scan", _REGISTRY, 0, reason))
    return findings


def _reasons(moderation: Moderation) -> str:
    codes = ", ".join(code[:60] for code in moderation.reason_codes[:5])
    return f" ({codes})" if codes else ""
