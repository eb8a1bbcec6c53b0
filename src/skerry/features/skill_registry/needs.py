"""Command lines that install what a skill needs, from the `install` list of its SKILL.md (pure).

A name of a package is a stranger's text. Each must match the names of its package manager, so that
it is neither an option, nor an address, nor a path; the commands are lists of arguments, and no
shell reads them. Kinds: seed 003, "Gating and Requirements".
"""

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from skerry.features.skill_registry.errors import SkillError
from skerry.model.skill import InstallSpec

DOWNLOAD: Final = "download"
_VERSION: Final = r"(?:@[0-9A-Za-z][0-9A-Za-z.+-]{0,60})?"
_NAMES: Final = {
    "brew": re.compile(r"[A-Za-z0-9][\w@+.-]{0,100}(?:/[A-Za-z0-9][\w@+.-]{0,100}){0,2}", re.ASCII),
    "apt": re.compile(r"[a-z0-9][a-z0-9+.-]{1,100}"),
    "node": re.compile(r"(?:@[a-z0-9][a-z0-9._-]{0,100}/)?[a-z0-9][a-z0-9._-]{0,200}" + _VERSION),
    "go": re.compile(
        r"[a-z0-9][a-z0-9-]{0,60}(?:\.[a-z0-9-]{1,60}){1,5}(?:/[A-Za-z0-9_~][\w.~-]{0,80}){1,8}"
        + _VERSION,
        re.ASCII,
    ),
    "uv": re.compile(
        r"[A-Za-z0-9](?:[\w.-]{0,100}[A-Za-z0-9])?(?:\[[\w,-]{1,80}\])?"
        r"(?:==[0-9A-Za-z][0-9A-Za-z.+!]{0,60})?",
        re.ASCII,
    ),
}
"""Names of packages by kind."""
_PROGRAMS: Final = {"brew": "brew", "apt": "apt-get", "node": "npm", "go": "go", "uv": "uv"}
_ENDINGS: Final = {
    ".zip": "zip",
    ".tar.gz": "tar",
    ".tgz": "tar",
    ".tar.bz2": "tar",
    ".tar.xz": "tar",
}
_SYSTEMS: Final = {"macos": "darwin", "windows": "win32"}
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,100}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
Which = Callable[[str], str | None]


class InstallPlan(Struct, frozen=True):
    """One way to install the programs of a skill."""

    spec: InstallSpec
    command: tuple[str, ...] = ()
    """Program and arguments; empty for a download."""
    missing: str = ""
    """Program that is needed for it, and not installed."""
    file_name: str = ""
    """Name of the downloaded file."""
    format: str = ""
    """`zip` or `tar` for an archive; empty for a program."""

    @property
    def text(self) -> str:
        """Returns the command line for people."""
        return " ".join(self.command) or f"download {self.spec.url}"


def plans_of(
    specs: Sequence[InstallSpec], *, is_root: bool, which: Which = shutil.which
) -> list[InstallPlan]:
    """Returns the ways that this system has, in their order.

    Raises:
        SkillError: a package has an invalid name, or a download an invalid address.
    """
    return [plan_of(spec, is_root=is_root, which=which) for spec in specs if _is_for_system(spec)]


def plan_of(spec: InstallSpec, *, is_root: bool, which: Which = shutil.which) -> InstallPlan:
    """Returns the command of one way. Raises `SkillError` as `plans_of`."""
    if spec.kind == DOWNLOAD:
        return _download(spec)
    pattern, program = _NAMES.get(spec.kind), _PROGRAMS.get(spec.kind, "")
    if pattern is None:
        kinds = ", ".join([*_NAMES, DOWNLOAD])
        raise SkillError(f"Unknown way to install {spec.kind[:40]!r}.", f"Known: {kinds}.")
    package = spec.package
    if pattern.fullmatch(package) is None or ".." in package:
        raise SkillError(
            f"{package[:80]!r} is not the name of a package of {program}.", "Do not install it."
        )
    command = _command(spec.kind, package, is_root=is_root)
    missing = next((name for name in (command[0], program) if which(name) is None), "")
    return InstallPlan(spec, command, missing)


def chosen(plans: Sequence[InstallPlan], option: str | None) -> InstallPlan:
    """Returns the way with this id, or the first that can be used.

    Raises:
        SkillError: there is none.
    """
    ids = ", ".join(plan.spec.id for plan in plans) or "none"
    if option is not None:
        for plan in plans:
            if plan.spec.id == option:
                return plan
        raise SkillError(f"Unknown option {option[:40]!r}.", f"Options: {ids}.")
    for plan in plans:
        if not plan.missing:
            return plan
    programs = " or ".join(dict.fromkeys(plan.missing for plan in plans))
    if not plans:
        raise SkillError(
            "The skill names no way for this system.", "Install the programs yourself."
        )
    raise SkillError(
        f"None of the ways ({ids}) can be used on this machine.", f"Install {programs} first."
    )


def _command(kind: str, package: str, *, is_root: bool) -> tuple[str, ...]:
    match kind:
        case "brew":
            return ("brew", "install", package)
        case "apt":
            install = ("apt-get", "install", "--yes", "--no-install-recommends", package)
            return install if is_root else ("sudo", *install)
        case "node":
            return ("npm", "install", "--global", "--ignore-scripts", package)
        case "go":
            return ("go", "install", package if "@" in package else f"{package}@latest")
        case _:
            return ("uv", "tool", "install", package)


def _download(spec: InstallSpec) -> InstallPlan:
    parts = urlsplit(spec.url)
    name = unquote(parts.path).rpartition("/")[2]
    if (
        parts.scheme != "https"
        or not parts.hostname
        or parts.username
        or not spec.url.isprintable()
    ):
        raise SkillError(f"{spec.url[:80]!r} is not an https address.", "Do not download it.")
    if spec.sha256 and not _SHA256.fullmatch(spec.sha256.lower()):
        raise SkillError(f"{spec.sha256[:80]!r} is not a SHA-256.", "Do not download it.")
    named = f"x.{spec.archive}" if spec.archive else name
    kind = next((kind for ending, kind in _ENDINGS.items() if named.endswith(ending)), "")
    if spec.extract is False:
        kind = ""
    if not kind and len(spec.bins) == 1:
        name = spec.bins[0]
    if _FILE_NAME.fullmatch(name) is None:
        raise SkillError(f"{name[:80]!r} is not an acceptable file name.", "Do not download it.")
    return InstallPlan(spec, file_name=name, format=kind)


def _is_for_system(spec: InstallSpec) -> bool:
    names = {_SYSTEMS.get(name, name) for name in spec.os}
    return not names or sys.platform in names
