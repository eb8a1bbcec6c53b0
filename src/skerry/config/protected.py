"""Paths that no tool may read or write, wherever the workspace is: decided on names alone.

What a tool writes must not become code that is run, or change what the gateway may do; and what it
reads goes to a model, so the places that hold secrets are closed. A workspace may lie in the state
directory, as it does by default, or around it: of the two the inner one decides.
"""

import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.config.root import Config
from skerry.policy.decide import OWNER, Actor
from skerry.policy.file_gate import GATEWAY, FileGate
from skerry.policy.file_kinds import LOADED
from skerry.policy.file_records import FileRecords

CLOSED: Final = frozenset({".git", ".openclaw", ".skerry"})
"""Directories, at any depth of a workspace, in which files are run or trusted."""
PROFILES: Final = "auth-profiles.json"
"""An agent's credentials, wherever its `agentDir` is."""
HOOK: Final = "hook.md"
"""Makes a hook of the directory in which it lies."""

_Names = tuple[str, ...]


class Protected(Struct, frozen=True):
    """Paths closed to tools; they are absolute and lead through no link.

    Implements `policy.file_gate.Closed`.
    """

    state: Path
    configuration: frozenset[Path]
    """The file and those it includes. Copies that are kept beside one begin with its name."""
    code: frozenset[Path]
    """Files and directories that the gateway runs."""
    workspaces: frozenset[Path]

    def reading(self, path: Path) -> str | None:
        """Returns why the file at the absolute `path` may not be read; None where it may."""
        names, state = _folded(path), _folded(self.state)
        if _within(names, state) and len(self._workspace(names)) <= len(state):
            return "it belongs to the gateway"
        if any(_is_copy(names, _folded(file)) for file in self.configuration):
            return "it is the gateway's configuration, or a copy of it"
        return None

    def writing(self, path: Path) -> str | None:
        """Returns why the file at the absolute `path` may not be written; None where it may."""
        names = _folded(path)
        if any(_within(names, _folded(folder)) for folder in self.code):
            return "the gateway runs what is there"
        for workspace in map(_folded, self.workspaces):
            top = names[len(workspace) :][:1]
            if _within(names, workspace) and LOADED.issuperset(top):
                return f"the gateway loads what is in {'/'.join(top)}"
        inner = names[len(self._workspace(names)) :]
        if CLOSED.intersection(inner) or names[-1] == HOOK:
            return "files of this name are run or trusted"
        return self.reading(path)

    def _workspace(self, names: _Names) -> _Names:
        """Returns the innermost workspace around a file; nothing where it lies in none."""
        enclosing = [
            workspace for workspace in map(_folded, self.workspaces) if _within(names, workspace)
        ]
        return max(enclosing, key=len, default=())


def protected(config: Config) -> Protected:
    """Returns the paths that the configuration and this installation close to tools."""
    home = config.path.parent
    plugins = [home / path.expanduser() for path in config.plugins.load.paths]
    hooks = [home / path.expanduser() for path in config.hooks.internal.load.extra_dirs]
    qmd = Path(config.memory.qmd.command).expanduser()
    programs = [qmd] if qmd.is_absolute() else []
    profiles = (config.agent_dir(agent) / PROFILES for agent in config.agents.ids)
    config_files = (config.path, *config.included, *profiles)
    return Protected(
        state=config.state_dir.resolve(),
        # The place of a link too: the file could be put in its place.
        configuration=frozenset(_with_resolved(config_files)),
        code=frozenset(_with_resolved((*plugins, *hooks, *programs))) | _installed(),
        workspaces=frozenset(config.workspace(agent).resolve() for agent in config.agents.ids),
    )


@cache
def _installed() -> frozenset[Path]:
    """Returns where our code is, which does not change while it runs."""
    return frozenset(_with_resolved((Path(__file__).parents[1], Path(sys.prefix))))


def gate(
    config: Config, actor: Actor = OWNER, records: FileRecords | None = None, writer: str = GATEWAY
) -> FileGate:
    """Returns the policy on files; the gateway itself acts for the owner."""
    closed = protected(config)
    return FileGate(closed, closed.workspaces, actor, records, writer)


def _with_resolved(paths: tuple[Path, ...] | list[Path]) -> list[Path]:
    """Returns where each path is, and where it leads."""
    return [
        spelling
        for path in paths
        for spelling in (path.parent.resolve() / path.name, path.resolve())
    ]


def _folded(path: Path) -> _Names:
    """Returns the names as a file system that ignores case, or form, compares them."""
    return tuple(unicodedata.normalize("NFKC", part).casefold() for part in path.parts)


def _within(names: _Names, directory: _Names) -> bool:
    return names[: len(directory)] == directory


def _is_copy(names: _Names, file: _Names) -> bool:
    """Returns whether it is the file, an earlier one of it, or one that is being written."""
    return names[:-1] == file[:-1] and names[-1].lstrip(".").startswith(file[-1].lstrip("."))
