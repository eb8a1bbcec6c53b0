"""`skerry skills publish`: publishes a folder as a version of a skill."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Final

import anyio

from skerry.cli.render import notice, one_line, show, show_json
from skerry.config.root import Config
from skerry.features.skill_registry.cli_parts import (
    confirm,
    finding_rows,
    read_config,
    registry,
    registry_url,
    show_findings,
    token_of,
)
from skerry.features.skill_registry.content import read_folder, skill_of
from skerry.features.skill_registry.errors import RegistryError, SkillError
from skerry.features.skill_registry.offers import checked_slug
from skerry.features.skill_registry.registry_client import Draft
from skerry.features.skill_registry.scan import are_severe, findings_of

FIRST: Final = "1.0.0"
LICENCE: Final = "MIT-0"
_SEMVER: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-[0-9A-Za-z.-]{1,40})?")
_NOT_FOUND: Final = 404


def run(arguments: Namespace) -> int:
    """Runs the command; returns the exit code."""
    config = read_config(fetch=True)
    token = token_of(config)
    folder = Path(arguments.folder).resolve()
    files = read_folder(folder)
    skill = skill_of(files, folder)
    slug = checked_slug(arguments.slug or folder.name)
    version = arguments.version or anyio.run(_next_version, config, slug, token)
    if _SEMVER.fullmatch(version) is None:
        raise SkillError(f"{version[:40]!r} is not a version.", "Write three numbers, as 1.2.3.")
    draft = Draft(slug, arguments.name or skill.name, version, arguments.changelog, files)
    findings = findings_of(files)
    notice(f"{slug} {version} ({one_line(draft.display_name)}), with the files:")
    for path, data in sorted(files.items()):
        notice(f"  {one_line(path)}  {len(data)} bytes")
    show_findings(findings)
    if are_severe(findings):
        notice("The registry and users of this program will refuse it because of these findings.")
    if not arguments.yes:
        confirm(
            f"Publish these files under the licence {LICENCE} on {registry_url(config)}?"
            " Everybody can read them.",
            f"Refusing to publish {slug}",
        )
    identity = anyio.run(_publish, config, draft, token)
    if arguments.json:
        row = {"ok": True, "slug": slug, "version": version, "id": identity}
        show_json(row | {"findings": finding_rows(findings)})
    else:
        show(f"{slug} {version} was sent to {registry_url(config)}; it may be scanned first.")
    return 0


async def _next_version(config: Config, slug: str, token: str) -> str:
    """Returns the version after the newest of the registry."""
    async with registry(config, token) as client:
        try:
            page = await client.skill(slug)
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return FIRST
            raise
    return next_version(page.latest_version.version) if page.latest_version is not None else FIRST


def next_version(latest: str) -> str:
    """Returns the next patch version.

    Raises:
        SkillError: the newest version is not three numbers.
    """
    parts = _SEMVER.fullmatch(latest)
    if parts is None:
        raise SkillError(f"The newest version {latest[:40]!r} is unusual.", "Pass --version.")
    return f"{parts[1]}.{parts[2]}.{int(parts[3]) + 1}"


async def _publish(config: Config, draft: Draft, token: str) -> str:
    async with registry(config, token) as client:
        return await client.publish(draft)
