"""`skerry update check`: looks for a newer version at the origin of this installation."""

import json
import os
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from skerry import __version__
from skerry.cli.render import one_line, show, show_json, styled
from skerry.infra.process import LateError, Program, run_blocking

SECONDS: Final = 15.0
"""Time limit for the package index, in seconds."""
_GRACE_SECONDS: Final = 1.0
_PIP: Final = (
    *(sys.executable, "-m", "pip", "index", "versions", "skerry"),
    *("--no-input", "--disable-pip-version-check", "--retries", "0", "--timeout", "5"),
)
_LATEST: Final = re.compile(r"^[ \t]*+LATEST:\s*(\S+)", re.MULTILINE)
_FIRST: Final = re.compile(r"^skerry \((\S+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Update:
    """Result of the check. `newer` is None when the origin could not be reached."""

    version: str
    newer: bool | None
    available: str = ""
    """The newest version, or the commit of the source's origin."""
    reason: str = ""
    """Reason why the result is unknown."""
    remedy: str = ""


def run(arguments: Namespace) -> int:
    """Runs `skerry update check`; returns 0 even without a network."""
    root = working_copy(_distribution())
    update = check_source(root) if root is not None else check_index()
    if arguments.json:
        show_json(asdict(update))
        return 0
    if update.newer is None:
        show(f"Skerry {update.version}; the check for a newer one failed: {update.reason}")
    elif update.newer:
        show(f"Skerry {update.version}; {styled(update.available, 'green')} is available.")
    else:
        show(f"Skerry {update.version} is the newest version.")
    if update.remedy:
        show(f"Try: {update.remedy}")
    return 0


def _distribution() -> Distribution | None:
    try:
        return Distribution.from_name("skerry")
    except PackageNotFoundError:
        return None


def working_copy(distribution: Distribution | None) -> Path | None:
    """Returns the working copy of this installation (PEP 610), or None."""
    text = distribution.read_text("direct_url.json") if distribution else None
    if text is None:
        return None
    origin = json.loads(text)
    url = urlsplit(str(origin.get("url", "")))
    root = Path(unquote(url.path))
    return root if url.scheme == "file" and (root / ".git").exists() else None


def check_source(root: Path) -> Update:
    """Compares the working copy with its origin; nothing is fetched into it."""
    git = shutil.which("git")
    if git is None:
        return Update(__version__, None, reason="git is not installed.")
    head = _output([git, "-C", str(root), "rev-parse", "HEAD"])
    listed = _output([git, "-C", str(root), "ls-remote", "--quiet", "origin", "HEAD"])
    if isinstance(listed, FailedProgram):
        return Update(__version__, None, reason=listed.reason)
    if isinstance(head, FailedProgram) or not listed.split():
        return Update(__version__, None, reason="the working copy has no commit or no origin.")
    commit = listed.split()[0]
    ancestor = _output([git, "-C", str(root), "merge-base", "--is-ancestor", commit, "HEAD"])
    if not isinstance(ancestor, FailedProgram):
        return Update(__version__, newer=False)
    remedy = f"git -C {root} pull, then make start; state and configuration are kept."
    return Update(__version__, newer=True, available=f"commit {commit[:12]}", remedy=remedy)


def check_index(command: Sequence[str] = _PIP) -> Update:
    """Queries pip's configured package index; `command` prints its versions."""
    listed = _output(command)
    if isinstance(listed, FailedProgram):
        return Update(__version__, None, reason=listed.reason)
    match = _LATEST.search(listed) or _FIRST.search(listed)
    if match is None:
        return Update(__version__, None, reason="the package index does not have Skerry.")
    newest = match[1]
    if newest == __version__:
        return Update(__version__, newer=False)
    remedy = (
        "pip install --upgrade skerry, then restart the gateway; state and configuration are kept."
    )
    return Update(__version__, newer=True, available=newest, remedy=remedy)


@dataclass(frozen=True, slots=True)
class FailedProgram:
    """Reason why a program returned no answer."""

    reason: str


def _output(command: Sequence[str]) -> str | FailedProgram:
    environment = os.environ | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    }
    try:
        # Git and pip remove their temporary files when they are asked to end.
        program = Program(command, environment, grace=_GRACE_SECONDS)
        finished = run_blocking(program, seconds=SECONDS)
    except LateError:
        return FailedProgram(f"no answer in {SECONDS:.0f} s.")
    out = finished.out.decode(errors="replace")
    if finished.code != 0:
        lines = (finished.err or out).strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if line.startswith(("fatal:", "ERROR:"))), lines[-1])
        return FailedProgram(f"{Path(command[0]).name}: {one_line(reason)}")
    return out
