"""Downloads a program that a skill needs, into `<state>/tools/<skill>`."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.managed_folder import exchange
from skerry.features.skill_registry.needs import InstallPlan
from skerry.features.skill_registry.unpacking import TOOL_LIMITS, Member, unpacked
from skerry.infra.atomic import make_private
from skerry.net.safe_fetch import FetchRequest, Outcome, SafeClient

FOLDER: Final = "tools"
MAX_BYTES: Final = 200 * 1024 * 1024
SECONDS: Final = 900.0
_OK: Final = 200


class Downloaded(Struct, frozen=True):
    """An installed download."""

    folder: Path
    sha256: str
    programs: tuple[Path, ...]
    """Files that may be executed."""


async def fetched(http: SafeClient, url: str) -> bytes:
    """Returns the content of an https address.

    Raises:
        SkillError: the address or a redirect is refused, or there was no complete answer.
    """
    result = await http.fetch(FetchRequest(url, max_bytes=MAX_BYTES, seconds=SECONDS))
    if result.outcome is not Outcome.ALLOW or result.status != _OK:
        raise SkillError(f"The download failed: {result.reason}", "Check the address, and repeat.")
    if result.final_url.split(":")[0] != url.split(":", maxsplit=1)[0]:
        raise SkillError("The download was redirected to an address without https.", "Stop here.")
    return result.body


def put(data: bytes, plan: InstallPlan, folder: Path) -> Downloaded:
    """Checks a download and puts its files into `folder`, whose old files are removed.

    Raises:
        SkillError: the hash differs, or the archive is refused.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    expected = plan.spec.sha256.lower()
    if expected and sha256 != expected:
        raise SkillError(
            f"The download has the SHA-256 {sha256}, not {expected}.", "Do not use it."
        )
    if plan.format:
        members = _stripped(
            unpacked(data, TOOL_LIMITS, plan.format), plan.spec.strip_components or 0
        )
    else:
        members = [Member(plan.file_name, data, is_executable=True)]
    make_private(folder.parent)
    staged = folder.with_name(f".new-{folder.name}-{secrets.token_hex(4)}")
    try:
        programs = [_write(staged, member, plan.spec.bins) for member in members]
        exchange(staged, folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return Downloaded(folder, sha256, tuple(folder / path for path in programs if path))


def _stripped(members: Iterable[Member], count: int) -> list[Member]:
    """Returns the members without their first folders; those that have no more are left out."""
    kept = []
    for member in members:
        parts = member.path.split("/")[count:]
        if parts:
            kept.append(Member("/".join(parts), member.data, member.is_executable))
    if not kept:
        raise SkillError("The archive has no file below its first folders.", "Do not use it.")
    return kept


def _write(folder: Path, member: Member, programs: Iterable[str]) -> str:
    """Writes a file; returns its path if it is a program."""
    target = folder / member.path
    make_private(target.parent)
    is_program = member.is_executable or target.name in programs
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(target, flags, 0o700 if is_program else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(member.data)
        os.fsync(descriptor)
    return member.path if is_program else ""
