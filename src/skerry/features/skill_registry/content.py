"""The content of a skill in a registry: its files, their hash, its front matter."""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.unpacking import SKILL_LIMITS, Member, checked_path
from skerry.model.errors import PluginError
from skerry.model.skill import SKILL_MD, Skill, Tier
from skerry.workspace.skill_md import parsed

SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
"""Name of a skill in the registry, and of its folder."""
VERSION: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.+-]{0,62}[0-9A-Za-z])?")
_GENERATED: Final = frozenset({"_meta.json", "skill-card.md"})
"""Files at the root that the registry adds to an archive."""
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__"})


def skill_of(files: Mapping[str, bytes], folder: Path) -> Skill:
    """Returns the skill with these files, as the gateway reads it from `folder`.

    Raises:
        SkillError: the SKILL.md is missing or not valid.
    """
    data = files.get(SKILL_MD)
    if data is None:
        raise SkillError(f"It has no {SKILL_MD}, so it is no skill.", "Choose another one.")
    try:
        return parsed(data.decode("utf-8-sig"), folder, Tier.MANAGED)
    except (PluginError, UnicodeDecodeError) as error:
        remedy = getattr(error, "remedy", "") or "Choose another one."
        raise SkillError(f"The {SKILL_MD} is not valid: {error}", remedy) from error


def files_of(members: list[Member]) -> dict[str, bytes]:
    """Returns the files of a skill by path, without hidden files and those of the registry.

    The only folder of an archive is removed from the paths.
    """
    files = {member.path: member.data for member in members}
    roots = {path.split("/")[0] for path in files}
    if len(roots) == 1 and f"{(root := roots.pop())}/{SKILL_MD}" in files:
        files = {path.removeprefix(f"{root}/"): data for path, data in files.items()}
    return {path: data for path, data in files.items() if not _is_hidden(path)}


def read_folder(folder: Path) -> dict[str, bytes]:
    """Returns the files in the folder of a skill by path, without hidden files.

    Raises:
        SkillError: the folder is missing or exceeds a limit, or has a link or a special file.
    """
    files: dict[str, bytes] = {}
    total = 0
    for path in _paths(folder):
        name = checked_path(path.relative_to(folder).as_posix())
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SkillError(f"{path} is not a plain file.", "Remove it.")
            data = file.read(SKILL_LIMITS.file_bytes + 1)
        total += len(data)
        if len(data) > SKILL_LIMITS.file_bytes or total > SKILL_LIMITS.total_bytes:
            raise SkillError(
                f"{path} makes the skill larger than {SKILL_LIMITS.file_bytes} bytes a file or"
                f" {SKILL_LIMITS.total_bytes} in all.",
                "Remove files that the skill does not need.",
            )
        files[name] = data
        if len(files) > SKILL_LIMITS.files:
            raise SkillError(f"{folder} has more than {SKILL_LIMITS.files} files.", "Remove some.")
    return files


def _paths(folder: Path) -> list[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise SkillError(
            f"{folder} cannot be read: {error.strerror}.", "Name the folder of a skill."
        ) from error
    paths: list[Path] = []
    for entry in entries:
        if _is_hidden(entry.name):
            continue
        if entry.is_symlink():
            raise SkillError(f"{entry.path} is a link.", "Replace it by the file.")
        paths += _paths(Path(entry.path)) if entry.is_dir() else [Path(entry.path)]
    return paths


def _is_hidden(path: str) -> bool:
    return path in _GENERATED or any(
        part.startswith(".") or part in _LEFT_OUT for part in path.split("/")
    )


def content_hash(files: Mapping[str, bytes]) -> str:
    """Returns the fingerprint of a skill: the SHA-256 of the sorted lines `path:sha256`.

    It is that of ClawHub (`buildSkillFingerprint` in packages/clawhub/src/skills.ts), for paths
    that its collation and the order of code points sort equally.
    """
    lines = sorted(f"{path}:{hashlib.sha256(data).hexdigest()}" for path, data in files.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
