"""Finds the program QMD, checks the Node that will run it, and creates its folders."""

import re
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry.features.memory.qmd_process import QmdError, checked, run
from skerry.infra.atomic import make_private
from skerry.infra.sqlite import problems
from skerry.model.redaction import Redaction

MIN_NODE: Final = 22
"""Oldest Node version: under Node 20 every command of QMD 2.8 crashes; measured."""
NODE_REMEDY: Final = (
    f"Install Node {MIN_NODE} or newer. If it is not first in the PATH, set memory.qmd.command"
    " to the qmd in the same folder."
)
INSTALL: Final = "Install it: npm install -g @tobilu/qmd. Or set its path in memory.qmd.command."
_NODE_SECONDS: Final = 30.0
_PASSED: Final = re.compile(r"HOME|USER|LANG|LC_\w+|TMPDIR|TZ|QMD_\w+|GGML_\w+|HF_ENDPOINT")
"""Environment variables passed to QMD; keys and tokens are not."""
_MODEL: Final = re.compile(r"^ +(embed|rerank): *\S*?([^/\s\"']+)[\"']?$", re.MULTILINE)
"""Model in QMD's `index.yml`: `hf:owner/repository/file.gguf`, or a path."""
_EMBED: Final = "embeddinggemma-300M-Q8_0.gguf"
_RERANK: Final = "qwen3-reranker-0.6b-q8_0.gguf"


@dataclass(frozen=True, slots=True)
class QmdHome:
    """An agent's folder of QMD. Source: seed 003, "QMD Storage Layout"."""

    folder: Path

    @property
    def config(self) -> Path:
        """Folder of QMD's collections."""
        return self.folder / "xdg-config"

    @property
    def cache(self) -> Path:
        """Folder of QMD's index and models."""
        return self.folder / "xdg-cache"

    @property
    def index(self) -> Path:
        """QMD's database."""
        return self.cache / "qmd" / "index.sqlite"

    @property
    def models(self) -> Path:
        """Folder of QMD's models."""
        return self.cache / "qmd" / "models"

    @property
    def sessions(self) -> Path:
        """Folder of the conversations as Markdown files."""
        return self.folder / "sessions"

    @property
    def record(self) -> Path:
        """File with the registered collections and their settings."""
        return self.folder / "collections.json"

    def prepare(self, environ: Mapping[str, str]) -> None:
        """Creates the folders; links the models that the user has already downloaded."""
        for folder in (self.config, self.models.parent, self.sessions):
            make_private(folder)
        shared = _user_cache(environ) / "qmd" / "models"
        if shared.is_dir() and not self.models.exists():
            self.models.unlink(missing_ok=True)  # a broken link
            self.models.symlink_to(shared)

    def forget(self, redaction: Redaction) -> int:
        """Deletes the index and the exports; returns how many exports had the phrases. Blocks.

        Raises:
            QmdError: they cannot be deleted.
        """
        exports = 0
        try:
            for path in self.sessions.glob("*.md*"):
                exports += redaction.holds(path.read_text("utf-8", errors="replace"))
                path.unlink()
            for path in self.index.parent.glob(f"{self.index.name}*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise QmdError(f"QMD's index cannot be deleted: {error}.") from error
        return exports

    def mend(self) -> str | None:
        """Deletes QMD's index if it is damaged; returns the damage, else None. Blocks.

        The index can be rebuilt from the files.

        Raises:
            OSError: it cannot be deleted.
        """
        try:
            damage = problems(self.index, whole=False) if self.index.exists() else []
        except sqlite3.OperationalError:
            return None  # another program uses it
        if damage:
            for path in self.index.parent.glob(f"{self.index.name}*"):
                path.unlink(missing_ok=True)
        return damage[0] if damage else None

    def has_model(self, role: str = "embed") -> bool:
        """Returns whether the model for `embed` or `rerank` is installed.

        QMD would download a missing model, which nobody requested and which hangs offline.
        """
        names = {"embed": _EMBED, "rerank": _RERANK}
        try:
            text = (self.config / "qmd" / "index.yml").read_text("utf-8", errors="replace")
        except OSError:
            text = ""
        names |= {match[1]: match[2] for match in _MODEL.finditer(text)}
        name = names[role].lower()
        try:
            return any(file.name.lower().endswith(name) for file in self.models.iterdir())
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class QmdProgram:
    """The program and its environment."""

    path: Path
    environ: Mapping[str, str]
    node: str
    """Version of the Node that runs it, such as `24.1.0`; "" if it needs none."""


def executable(command: str, environ: Mapping[str, str]) -> Path:
    """Returns the path of the program.

    Raises:
        QmdError: it is not installed, or not executable.
    """
    path = shutil.which(Path(command).expanduser(), path=environ.get("PATH", ""))
    if path is None:
        raise QmdError(f"The program {command} is not installed.", INSTALL)
    return Path(path).absolute()


async def find_program(command: str, environ: Mapping[str, str], home: QmdHome) -> QmdProgram:
    """Returns the program, after checking the version of its Node.

    Raises:
        QmdError: QMD or Node is missing, or Node is too old.
    """
    path = executable(command, environ)
    # With several Nodes, the one that QMD was installed with is in the folder of QMD.
    search = f"{path.parent}:{environ.get('PATH', '')}"
    child_environ = {name: value for name, value in environ.items() if _PASSED.fullmatch(name)}
    child_environ |= {
        "PATH": search,
        "XDG_CONFIG_HOME": str(home.config),
        "XDG_CACHE_HOME": str(home.cache),
        "NO_COLOR": "1",
        "QMD_HOST": "127.0.0.1",
    }
    child_environ.pop("QMD_CONFIG_DIR", None)  # it would replace the agent's folder
    return QmdProgram(
        path,
        child_environ,
        await _node(path, child_environ, home.folder) if _is_script(path) else "",
    )


async def _node(qmd: Path, environ: Mapping[str, str], folder: Path) -> str:
    node = shutil.which("node", path=environ["PATH"])
    if node is None:
        raise QmdError(f"{qmd} needs Node, which is not installed.", NODE_REMEDY)
    version_line = await run(
        [node, "--version"], environ=environ, folder=folder, seconds=_NODE_SECONDS
    )
    version = checked(version_line, f"{node} --version").out.decode(errors="replace").strip()
    match = re.fullmatch(r"v(\d+)\.[\w.+-]+", version)
    if match is None or int(match[1]) < MIN_NODE:
        raise QmdError(
            f"{qmd} needs Node {MIN_NODE}; {node} has version {version[:40]!r}.", NODE_REMEDY
        )
    return version.removeprefix("v")


def _is_script(path: Path) -> bool:
    """Returns whether Node runs it: a script, or a shim, that contains `node`."""
    with path.open("rb") as file:
        return b"node" in file.read(4096)


def _user_cache(environ: Mapping[str, str]) -> Path:
    named = environ.get("XDG_CACHE_HOME", "")
    return Path(named) if named else Path(environ.get("HOME", "/nonexistent")) / ".cache"
