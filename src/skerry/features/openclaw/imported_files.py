"""Finds the workspaces of an OpenClaw home, and copies those that a person agreed to."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.config.paths import KeyPath, show_key_path
from skerry.config.root import Config
from skerry.features.openclaw.home import inside, workspaces
from skerry.features.openclaw.proposal import KeyOutcome, ProposedKey
from skerry.features.openclaw.report import Report, counted
from skerry.infra.copying import copy_tree
from skerry.model.ids import MAIN_AGENT, AgentId, agent_id
from skerry.workspace.heartbeat_file import has_work
from skerry.workspace.prompt_files import BOOT, BOOTSTRAP, HEARTBEAT, ORDER
from skerry.workspace.workspace_init import is_untouched

_HOME: Final = ".openclaw"
_PRIVATE: Final = frozenset({"agents", "credentials", "devices", "identity", "state"})
_MAX_READ_BYTES: Final = 1024 * 1024
"""Bytes of a HEARTBEAT.md that is searched for instructions; a larger one counts as having some."""
WITHHELD: Final = {
    BOOT: "it runs at each start; needs --yes-to hooks.internal.entries.boot-md.enabled",
    HEARTBEAT: "the agent follows it unasked; needs --yes-to agents.defaults.heartbeat.every",
}
"""Files that make an agent act by itself, each with the key by which a person can agree."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Directory of one agent in the OpenClaw home."""

    agent: AgentId
    path: Path
    line: ProposedKey | None
    """Line that asks for consent when the path is outside of the home, otherwise None."""


def find(
    home: Path, foreign: Mapping[str, Any], config: Config, yes: Collection[str]
) -> list[Workspace]:
    """Returns the workspace of each agent that has one."""
    return [
        workspace
        for agent in config.agents.ids
        for workspace in _of(agent, home, foreign, config, yes)
    ]


def acting(home: Path, foreign: Mapping[str, Any]) -> set[str]:
    """Returns the names of workspace files that make an agent act by itself.

    A HEARTBEAT.md without instructions does not count.
    """
    agents = foreign.get("agents", {})
    listed = agents.get("list") if isinstance(agents, dict) else None
    entries = (
        [agent for agent in listed if isinstance(agent, dict)] if isinstance(listed, list) else []
    )
    ids = [agent_id(str(agent.get("id"))) for agent in entries] or [MAIN_AGENT]
    texts = [text for agent in ids for _, text in _configured(agent, foreign, default=True)]
    folders = [*workspaces(home), *(_moved(home, text) for text in texts)]
    return {name for name in WITHHELD for folder in folders if _acts(folder / name)}


def _acts(file: Path) -> bool:
    if file.name != HEARTBEAT or not file.is_file() or file.stat().st_size > _MAX_READ_BYTES:
        return file.is_file()
    return has_work(file.read_text("utf-8", "replace"))


def copy(
    spaces: Collection[Workspace], config: Config, report: Report, withheld: Collection[str]
) -> None:
    """Copies the workspaces without the root files whose names are withheld."""

    def skip(relative: Path) -> str:
        return WITHHELD[str(relative)] if str(relative) in withheld else ""

    for workspace in spaces:
        if workspace.line is not None and workspace.line.outcome is not KeyOutcome.ACCEPTED:
            continue
        target = config.workspace(workspace.agent)
        copied = copy_tree(
            workspace.path,
            target,
            write=report.applied,
            skip=skip,
            gives_way=lambda relative, data: relative.name in ORDER and is_untouched(data),
        )
        _greet_nobody(workspace.path, target, report)
        report.workspaces.append(counted(workspace.path, copied, workspace.agent, target))
        for relative_path, reason in copied.refused:
            report.skip(str(workspace.path / relative_path), reason)


def _greet_nobody(origin: Path, target: Path, report: Report) -> None:
    """Removes the greeting of a first start where the imported agent knows the person already."""
    is_used = any((origin / name).is_file() for name in ORDER if name != BOOTSTRAP)
    greeting = target / BOOTSTRAP
    if not is_used or (origin / BOOTSTRAP).exists() or greeting.is_symlink():
        return
    if not greeting.is_file():
        return
    if not is_untouched(greeting.read_bytes()):
        report.skip(
            str(greeting), "you changed it, so it is kept: the agent still asks for your name"
        )
    elif report.applied:
        greeting.unlink()


def _of(
    agent: AgentId, home: Path, foreign: Mapping[str, Any], config: Config, yes: Collection[str]
) -> Iterator[Workspace]:
    default = agent == config.agents.default_id
    for key, text in _configured(agent, foreign, default=default):
        path = _moved(home, text)
        if not path.is_dir():
            continue
        if _is_workspace(home, path):
            yield Workspace(agent, path.resolve(), None)
        else:
            outcome = KeyOutcome.ACCEPTED if show_key_path(key) in yes else KeyOutcome.NEEDS_CONSENT
            reason = f"it is not a workspace of {home}; its files go to {config.workspace(agent)}"
            yield Workspace(agent, path.resolve(), ProposedKey(key, str(path), outcome, reason))
        return
    for name in [*(["workspace"] if default else []), f"workspace-{agent}"]:
        path = home / name
        if not path.is_dir():
            continue
        if inside(home, path):
            yield Workspace(agent, path, None)
            return
        # No configuration key names a link out of the home, so a person cannot agree to it.
        key = ("agents", "defaults", "workspace")
        reason = f"{path} is a link out of the home"
        yield Workspace(
            agent, path, ProposedKey(key, str(path.resolve()), KeyOutcome.REFUSED, reason)
        )
        return


def _configured(
    agent: AgentId, foreign: Mapping[str, Any], *, default: bool
) -> Iterator[tuple[KeyPath, str]]:
    agents = foreign.get("agents", {})
    agents = agents if isinstance(agents, dict) else {}
    listed = agents.get("list")
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(entry, dict) and agent_id(str(entry.get("id"))) == agent:
            text = entry.get("workspace")
            if isinstance(text, str):
                yield ("agents", "list", number, "workspace"), text
    defaults = agents.get("defaults")
    text = defaults.get("workspace") if isinstance(defaults, dict) and default else None
    if isinstance(text, str):
        yield ("agents", "defaults", "workspace"), text


def _is_workspace(home: Path, path: Path) -> bool:
    """Returns true when the directory is in the home but in none of its internal folders."""
    if not inside(home, path) or path.resolve() == home.resolve():
        return False
    return path.resolve().relative_to(home.resolve()).parts[0] not in _PRIVATE


def _moved(home: Path, text: str) -> Path:
    """Returns the directory that the text names, below this home where it exists there too.

    A home that was copied from another machine names itself by its old path.
    """
    path = Path(text).expanduser()
    if _HOME in path.parts:
        rest = path.parts[path.parts.index(_HOME) + 1 :]
        moved = home.joinpath(*rest)
        if rest and ".." not in rest and moved.is_dir():
            return moved
    return path if path.is_absolute() else home / path
