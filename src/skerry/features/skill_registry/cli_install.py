"""`skerry skills install|update|remove`: changes the managed skills."""

import time
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio
from msgspec.structs import replace

from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json
from skerry.config.root import Config
from skerry.features.skill_registry.cli_parts import (
    confirm,
    finding_rows,
    read_config,
    registry,
    registry_url,
    show_findings,
)
from skerry.features.skill_registry.errors import BlockedError, SkillError
from skerry.features.skill_registry.lock_file import LockedSkill
from skerry.features.skill_registry.managed_folder import ManagedSkills, opened
from skerry.features.skill_registry.offers import Offer, checked_slug, newest, offer
from skerry.features.skill_registry.scan import Finding, Severity, are_severe
from skerry.model.errors import SkerryError

FOLDER: Final = "skills"


def run(arguments: Namespace) -> int:
    """Runs the command; returns the exit code."""
    config = read_config()
    slug = checked_slug(arguments.slug) if arguments.slug else ""
    with opened(config.state_dir / FOLDER) as skills:
        match arguments.action:
            case "install":
                return _install(config, skills, slug, arguments)
            case "update":
                return _update(config, skills, slug, arguments)
            case _:
                return _remove(skills, slug, arguments)


def _install(config: Config, skills: ManagedSkills, slug: str, arguments: Namespace) -> int:
    old = skills.locked.get(slug)
    if old is None and skills.path(slug).exists():
        raise SkillError(
            f"{skills.path(slug)} exists, and no registry installed it.", "Move it elsewhere first."
        )
    wanted = arguments.version or ""
    latest = anyio.run(partial(_offered, config, slug, wanted, "" if old is None else old.version))
    if latest is None or (old is not None and latest.sha256 == old.sha256 and not arguments.force):
        version = old.version if old is not None else wanted
        return _report(arguments, slug, "current", f"{slug} {version} is installed already.")
    if old is not None:
        if skills.is_changed(slug) and not arguments.force:
            raise _changed(skills, slug)
        latest = _compared(config, old, latest)
    _decide(skills, latest, arguments)
    _put(config, skills, latest)
    text = f"{slug} {latest.version} is installed in {skills.path(slug)}."
    return _report(arguments, slug, "installed", text, _details(skills, latest))


def _update(config: Config, skills: ManagedSkills, slug: str, arguments: Namespace) -> int:
    if slug and slug not in skills.locked:
        raise _unknown(skills, slug)
    rows = [_updated(config, skills, name, arguments) for name in [slug] if name]
    rows += [
        _updated(config, skills, name, arguments) for name in sorted(skills.locked) if not slug
    ]
    if arguments.json:
        show_json({"skills": rows})
    elif not rows:
        show("No skill of a registry is installed. Find one: skerry skills search WORDS")
    else:
        for row in rows:
            show(one_line(row["text"]))
    return 1 if any(row["status"] in {"failed", "blocked", "changed"} for row in rows) else 0


def _updated(
    config: Config, skills: ManagedSkills, slug: str, arguments: Namespace
) -> dict[str, Any]:
    """Updates one skill; a failure does not stop the others."""
    old = skills.locked[slug]
    row: dict[str, Any] = {"slug": slug, "from": old.version, "to": old.version}
    try:
        latest = anyio.run(partial(_offered, config, slug, "", old.version))
        if latest is None or latest.version == old.version:
            return row | {"status": "current", "text": f"{slug} {old.version} is the newest."}
        row["to"] = latest.version
        if skills.is_changed(slug) and not arguments.force:
            error = _changed(skills, slug)
            return row | {"status": "changed", "text": f"{error} {error.remedy}"}
        latest = _compared(config, old, latest)
        _decide(skills, latest, arguments)
        _put(config, skills, latest)
    except BlockedError as error:
        text = f"{error} Remove it now: skerry skills remove {slug}"
        return row | {"status": "blocked", "text": text}
    except SkerryError as error:
        return row | {"status": "failed", "text": f"{slug}: {error} {error.remedy}"}
    text = f"{slug}: {old.version} was replaced by {latest.version}."
    return row | {"status": "updated", "text": text, "findings": finding_rows(latest.findings)}


def _remove(skills: ManagedSkills, slug: str, arguments: Namespace) -> int:
    if slug not in skills.locked:
        raise _unknown(skills, slug)
    if skills.is_changed(slug) and not arguments.force:
        raise SkillError(
            f"You have changed files of {slug}.", "Copy them elsewhere, or pass --force."
        )
    skills.remove(slug)
    return _report(arguments, slug, "removed", f"{slug} was removed.")


async def _offered(config: Config, slug: str, version: str, installed: str) -> Offer | None:
    """Returns the examined version; None if it is the newest, and installed already."""
    async with registry(config) as client:
        page, latest = await newest(client, slug)
        if not version and latest == installed:
            return None
        return await offer(client, page, version or latest)


def _compared(config: Config, old: LockedSkill, latest: Offer) -> Offer:
    """Returns the offer, with a finding if it is not of the installed skill's publisher.

    Names of deleted skills can be claimed by others, so the same name is no proof.

    Raises:
        SkillError: the installed skill is of another registry.
    """
    if old.registry != registry_url(config):
        raise SkillError(
            f"{latest.slug} was installed from {old.registry}, not from {registry_url(config)}.",
            f"Remove it first: skerry skills remove {latest.slug}",
        )
    if old.owner == latest.owner:
        return latest
    reason = f"its publisher was {old.owner or 'unknown'}, and is {latest.owner or 'unknown'} now"
    finding = Finding(Severity.SEVERE, "publisher-changed", "(registry)", 0, reason)
    return replace(latest, findings=(finding, *latest.findings))


def _decide(skills: ManagedSkills, latest: Offer, arguments: Namespace) -> None:
    """Prints what is known about an offer, and asks.

    Raises:
        SkerryError: it is refused.
    """
    for slug, entry in skills.locked.items():
        if entry.name == latest.skill.name and slug != latest.slug:
            raise SkillError(
                f"{latest.slug} has the name {latest.skill.name} of the installed skill {slug}.",
                f"Remove that first: skerry skills remove {slug}",
            )
    size = sum(map(len, latest.files.values()))
    author = f"by {one_line(latest.owner)}" if latest.owner else "by an unknown author"
    notice(f"{latest.slug} {latest.version} {author}: {one_line(latest.skill.description)}")
    notice(f"  {size} bytes in {one_line(', '.join(latest.files))[:400]}")
    show_findings(latest.findings)
    if are_severe(latest.findings) and not arguments.accept_findings:
        raise SkillError(
            f"{latest.slug} {latest.version} was refused because of severe findings.",
            "Choose another skill. Read its files before you pass --accept-findings.",
        )
    if not arguments.yes:
        confirm(
            f"Agents follow its text, with their tools. Install {latest.slug} {latest.version}?",
            f"Refusing to install {latest.slug}",
        )


def _put(config: Config, skills: ManagedSkills, latest: Offer) -> None:
    entry = LockedSkill(
        latest.version,
        latest.sha256,
        registry_url(config),
        time.time_ns() // 1_000_000,
        latest.skill.name,
        latest.owner,
    )
    skills.put(latest.slug, latest.files, entry)


def _details(skills: ManagedSkills, latest: Offer) -> Mapping[str, Any]:
    return {
        "version": latest.version,
        "sha256": latest.sha256,
        "owner": latest.owner,
        "path": str(skills.path(latest.slug)),
        "findings": finding_rows(latest.findings),
    }


def _report(
    arguments: Namespace,
    slug: str,
    status: str,
    text: str,
    details: Mapping[str, Any] | None = None,
) -> int:
    if arguments.json:
        show_json({"ok": True, "slug": slug, "status": status, **(details or {})})
    else:
        show(one_line(text))
    return 0


def _changed(skills: ManagedSkills, slug: str) -> SkillError:
    return SkillError(
        f"{slug} is not replaced: you have changed its files in {skills.path(slug)}.",
        "Copy your changes elsewhere, then pass --force.",
    )


def _unknown(skills: ManagedSkills, slug: str) -> FailedError:
    names = ", ".join(sorted(skills.locked)) or "none"
    return FailedError(
        f"No registry installed the skill {slug!r}.", f"Installed by a registry: {names}."
    )
