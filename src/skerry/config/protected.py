"""Paths that no tool may read or write, wherever the workspace is; decided by path only.

A file that a tool writes must not become code that is run, or change the gateway's permissions. The
content that it reads is sent to a model, so directories with secrets are closed. A workspace may be
in the state directory, as by default, or contain it: the inner directory decides.
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
"""File with an agent's credentials, in its `agentDir`."""
HOOK: Final = "hook.md"
"""File that makes its directory a hook."""

_Names = tuple[str, ...]


class Protected(Struct, frozen=True):
    """Paths closed to tools; they are absolute and have no links.

    Implements `policy.file_gate.Closed`.
    """

    state: Path
    configuration: frozenset[Path]
    """The configuration file and its included files; names of their copies begin with theirs."""
    code: frozenset[Path]
    """Files and directories that the gateway runs."""
    workspaces: frozenset[Path]

    def reading(self, path: Path) -> str | None:
        """Returns the reason why the file at the absolute `path` may not be read, or None."""
        names, state = _folded(path), _folded(self.state)
        if _within(names, state) and len(self._workspace(names)) <= len(state):
            return "it belongs to the gateway"
        if any(_is_copy(names, _folded(file)) for file in self.configuration):
            return "it is the gateway's configuration, or a copy of it"
        return None

    def writing(self, path: Path) -> str | None:
        """Returns the reason why the file at the absolute `path` may not be written, or None."""
        names = _folded(path)
        if any(_within(names, _folded(folder)) for folder in self.code):
            return "the gateway runs code in this path"
        for workspace in map(_folded, self.workspaces):
            top = names[len(workspace) :][:1]
            if _within(names, workspace) and LOADED.issuperset(top):
                return f"the gateway loads the files in {'/'.join(top)}"
        inner = names[len(self._workspace(names)) :]
        if CLOSED.intersection(inner) or names[-1] == HOOK:
            return "files of this name are run or trusted"
        return self.reading(path)

    def _workspace(self, names: _Names) -> _Names:
        """Returns the innermost workspace that contains a file; empty if none does."""
        enclosing = [
            workspace for workspace in map(_folded, self.workspaces) if _within(names, workspace)
        ]
        return max(enclosing, key=len, default=())


def protected(config: Config) -> Protected:
    """Returns the paths that the configuration and this installation close to tools."""
    home = config.path.parent
    plugins = [home / path.expanduser() for path in config.plugins.load.paths]
    hooks = [home / path.expanduser() for path in config.hooks.internal.load.extra_dirs]
    skills = [home / path.expanduser() for path in config.skills.load.extra_dirs]
    qmd = Path(config.memory.qmd.command).expanduser()
    programs = [qmd] if qmd.is_absolute() else []
    profiles = (config.agent_dir(agent) / PROFILES for agent in config.agents.ids)
    config_files = (config.path, *config.included, *profiles)
    return Protected(
        state=config.state_dir.resolve(),
        # The path of a link too: a file could replace the link.
        configuration=frozenset(_with_resolved(config_files)),
        code=frozenset(_with_resolved((*plugins, *hooks, *skills, *programs))) | _installed(),
        workspaces=frozenset(config.workspace(agent).resolve() for agent in config.agents.ids),
    )


@cache
def _installed() -> frozenset[Path]:
    """Returns the directories of Skerry's code, which do not change while it runs."""
    return frozenset(_with_resolved((Path(__file__).parents[1], Path(sys.prefix))))


def gate(
    config: Config, actor: Actor = OWNER, records: FileRecords | None = None, writer: str = GATEWAY
) -> FileGate:
    """Returns the policy on files; the gateway itself acts for the owner."""
    closed = protected(config)
    return FileGate(closed, closed.workspaces, actor, records, writer)


def _with_resolved(paths: tuple[Path, ...] | list[Path]) -> list[Path]:
    """Returns each path, and the path that it resolves to."""
    return [
        spelling
        for path in paths
        for spelling in (path.parent.resolve() / path.name, path.resolve())
    ]


def _folded(path: Path) -> _Names:
    """Returns the parts of the path, normalised as file systems that ignore case compare them."""
    return tuple(unicodedata.normalize("NFKC", part).casefold() for part in path.parts)


def _within(names: _Names, directory: _Names) -> bool:
    return names[: len(directory)] == directory


def _is_copy(names: _Names, file: _Names) -> bool:
    """Returns whether the path is the file, a backup of it, or a temporary file of a write."""
    return names[:-1] == file[:-1] and names[-1].lstrip(".").startswith(file[-1].lstrip("."))
