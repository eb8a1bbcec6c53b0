"""The skills of each agent, from all tiers; unchanged folders are not read again.

A call without changes costs one `lstat` for each directory, each skill and, if a skill requires
programs, each directory of PATH.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.config.root import Config
from skerry.config.skill_settings import SkillLimitsConfig, SkillsConfig
from skerry.model.errors import PluginError
from skerry.model.ids import AgentId
from skerry.model.skill import SKILL_MD, Skill, SkillFault, SkillSet, Tier
from skerry.policy.file_records import FileRecords
from skerry.workspace.late import skill_md
from skerry.workspace.prompt_files import Mark, mark

logger = logging.getLogger(__name__)

FOLDER: Final = "skills"
"""Folder of skills in a workspace and in the state directory."""
_ORDER: Final = tuple(Tier)
_ALL: Final = "*"


class SkillRoot(Struct, frozen=True):
    """A directory whose subfolders are skills."""

    tier: Tier
    path: str


class _Scan(Struct, frozen=True):
    """Content of a directory of skills, with the marks of the files that it was read from."""

    root: SkillRoot
    names: tuple[str, ...] = ()
    """Names of the subfolders."""
    marks: tuple[Mark, ...] = ()
    skills: tuple[Skill, ...] = ()
    faults: tuple[SkillFault, ...] = ()
    basis: tuple[object, ...] = ()
    """Other values that it depends on."""

    @property
    def is_current(self) -> bool:
        """Returns whether no file has changed since."""
        return self.marks == _marks(self.root.path, self.names)


class _Loaded(Struct, frozen=True):
    """The skills of an agent, with all values that they were computed from."""

    config: Config
    workspace: Path
    plugins: Mapping[str, Skill]
    cleared: int
    scans: tuple[_Scan, ...]
    path_marks: tuple[Mark, ...]
    """Marks of the directories of PATH; empty if no skill requires a program."""
    skills: SkillSet


class SkillCatalogue(Struct):
    """Reads the skills of agents. The event loop calls `current`, which rarely reads files."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Environment of the gateway, for requirements."""
    records: FileRecords | None = None
    """Writers of the files in workspaces."""
    bundled: tuple[Path, ...] = ()
    """Directories of skills of this installation."""
    plugins: Mapping[str, Skill] = MappingProxyType({})
    """Skills of plugins by name; replaced when plugins are loaded or removed."""
    _loaded: dict[AgentId, _Loaded] = field(default_factory=dict)
    _scans: dict[SkillRoot, _Scan] = field(default_factory=dict)
    _path: tuple[str, tuple[str, ...]] = ("", ())

    async def current(
        self, config: Config, agent: AgentId, workspace: Path | None = None
    ) -> SkillSet:
        """Returns the present skills of an agent; reads changed files in a thread."""
        workspace = workspace or config.workspace(agent)
        skills = self.unchanged(config, agent, workspace)
        if skills is None:
            return await anyio.to_thread.run_sync(self.load, config, agent, workspace)
        return skills

    def unchanged(self, config: Config, agent: AgentId, workspace: Path) -> SkillSet | None:
        """Returns the skills of an agent; None if they must be loaded again."""
        loaded = self._loaded.get(agent)
        if (
            loaded is not None
            and loaded.config is config
            and loaded.plugins is self.plugins
            and loaded.workspace == workspace
            and loaded.cleared == self._cleared
            and (not loaded.path_marks or loaded.path_marks == self._path_marks())
            and all(scan.is_current for scan in loaded.scans)
        ):
            return loaded.skills
        return None

    def load(
        self,
        config: Config,
        agent: AgentId,
        workspace: Path | None = None,
        *,
        every: bool = False,
    ) -> SkillSet:
        """Returns the present skills of an agent. Blocks while it reads changed files.

        Args:
            config: The present configuration.
            agent: The agent.
            workspace: Workspace of the agent, if it is not the configured one.
            every: Also returns the bundled skills if none of them is enabled.

        """
        workspace = workspace or config.workspace(agent)
        cleared, plugins = self._cleared, self.plugins
        roots = self._roots(config, workspace, every=every)
        scans = [self._scan(root, config, cleared) for root in roots]
        candidates = [*plugins.values(), *(skill for scan in scans for skill in scan.skills)]
        candidates.sort(key=lambda skill: (_ORDER.index(skill.tier), skill.name))
        by_name: dict[str, Skill] = {}
        hidden = [
            skill
            for skill in candidates
            if by_name.setdefault(skill.name.casefold(), skill) is not skill
        ]
        decided = [
            replace(skill_md.gated(skill, config, self.environ), off=_off(skill, config, agent))
            for skill in by_name.values()
        ]
        faults = tuple(fault for scan in scans for fault in scan.faults)
        skills = SkillSet(tuple(decided), tuple(hidden), faults)
        needs_path = any(names for skill in decided for _, names in skill.requires[:2])
        path_marks = self._path_marks() if needs_path else ()
        if every:
            return skills
        before = self._loaded.get(agent)
        _warn(faults, before.skills.faults if before else ())
        if before is not None and before.skills == skills:
            skills = before.skills
        self._loaded[agent] = _Loaded(
            config, workspace, plugins, cleared, tuple(scans), path_marks, skills
        )
        return skills

    def loaded(self, agent: AgentId) -> SkillSet:
        """Returns the skills of an agent at its last run; none before the first one."""
        loaded = self._loaded.get(agent)
        return loaded.skills if loaded is not None else SkillSet()

    @property
    def _cleared(self) -> int:
        return self.records.cleared if self.records is not None else 0

    def _roots(self, config: Config, workspace: Path, *, every: bool) -> Iterator[SkillRoot]:
        yield SkillRoot(Tier.WORKSPACE, f"{workspace}/{FOLDER}")
        yield SkillRoot(Tier.MANAGED, f"{config.state_dir}/{FOLDER}")
        section = config.skills
        enabled = section.allow_bundled or any(each.enabled for each in section.entries.values())
        for path in self.bundled if enabled or every else ():
            yield SkillRoot(Tier.BUNDLED, str(path))
        for path in config.skills.load.extra_dirs:
            yield SkillRoot(Tier.EXTRA, str(config.path.parent / path.expanduser()))

    def _scan(self, root: SkillRoot, config: Config, cleared: int) -> _Scan:
        """Returns the content of a directory, from the cache if it has not changed."""
        scan, basis = self._scans.get(root), (cleared, config.skills.limits)
        if scan is None or scan.basis != basis or not scan.is_current:
            records = self.records if root.tier is Tier.WORKSPACE else None
            scan = replace(scan_root(root, config.skills, records), basis=basis)
            self._scans[root] = scan
        return scan

    def _path_marks(self) -> tuple[Mark, ...]:
        """Returns marks that change when a program is installed or removed."""
        path = self.environ.get("PATH", "")
        if self._path[0] != path:
            self._path = path, tuple(filter(None, path.split(os.pathsep)))
        return tuple(map(mark, self._path[1]))


def scan_root(root: SkillRoot, config: SkillsConfig, records: FileRecords | None = None) -> _Scan:
    """Returns the skills in the subfolders of a directory, and the folders that are refused.

    A skill that is a link is accepted if it leads to a folder of the same directory.
    """
    limits = config.limits
    names, faults = _subfolders(root, limits.max_candidates_per_root)
    marks = _marks(root.path, names)  # before the files are read: a later change is seen next time
    skills: dict[str, Skill] = {}
    top = Path(root.path).resolve()
    for name, file_mark in zip(names, marks[1:], strict=True):
        if file_mark is None:
            continue
        try:
            skill = _read(top / name, root, limits, records)
            _add(skill, skills, limits.max_skills_loaded_per_source)
        except PluginError as error:
            faults.append(SkillFault(root.tier, top / name, str(error), error.remedy or ""))
    return _Scan(root, tuple(names), marks, tuple(skills.values()), tuple(faults))


def _read(
    path: Path, root: SkillRoot, limits: SkillLimitsConfig, records: FileRecords | None
) -> Skill:
    """Returns the skill in a subfolder of a root.

    Raises:
        PluginError: the folder is a link that leaves the root, or its SKILL.md is invalid.
    """
    folder = path.resolve()
    if folder.parent != path.parent:
        message = f"{path} is a link to {folder}, outside of {path.parent}."
        remedy = "Copy the folder, or name its parent in skills.load.extraDirs."
        raise PluginError(message, remedy)
    return skill_md.read_skill(folder, root.tier, limits.max_skill_file_bytes, records=records)


def _add(skill: Skill, skills: dict[str, Skill], limit: int) -> None:
    """Adds a skill to those of its root.

    Raises:
        PluginError: the root has a skill with that name, or too many skills.
    """
    name = skill.name.casefold()
    if len(skills) >= limit and name not in skills:
        message = f"{skill.folder} is not used: {skill.folder.parent} has more than {limit} skills."
        raise PluginError(message, "Raise skills.limits.maxSkillsLoadedPerSource.")
    first = skills.setdefault(name, skill)
    if first.folder != skill.folder:
        message = f"{skill.folder} has the name {skill.name} of the skill in {first.folder}."
        raise PluginError(message, "Change the name in one of them.")


def _subfolders(root: SkillRoot, limit: int) -> tuple[list[str], list[SkillFault]]:
    """Returns the names of the subfolders of a directory in their order, and faults of it."""
    try:
        with os.scandir(root.path) as entries:
            names = sorted(
                entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."
            )
    except FileNotFoundError:
        is_named = root.tier is Tier.EXTRA
        fault = SkillFault(root.tier, Path(root.path), f"{root.path} does not exist.")
        return [], [fault] if is_named else []
    except OSError as error:
        problem = f"{root.path} cannot be read: {error.strerror}."
        return [], [SkillFault(root.tier, Path(root.path), problem)]
    if len(names) <= limit:
        return names, []
    problem = f"{root.path} has {len(names)} folders; the first {limit} are examined."
    remedy = "Remove folders, or raise skills.limits.maxCandidatesPerRoot."
    return names[:limit], [SkillFault(root.tier, Path(root.path), problem, remedy)]


def _marks(root: str, names: Sequence[str]) -> tuple[Mark, ...]:
    # With a separator at its end, a root that is a link is followed.
    return (mark(f"{root}/"), *[mark(f"{root}/{name}/{SKILL_MD}") for name in names])


def _off(skill: Skill, config: Config, agent: AgentId) -> str:
    """Returns the key of the configuration that disables a skill for an agent, or an empty text."""
    section = config.skills
    entry = section.entries.get(skill.entry)
    enabled = entry.enabled if entry is not None else None
    if enabled is False:
        return f"skills.entries.{skill.entry}.enabled"
    if skill.tier is Tier.BUNDLED and not enabled:
        allowed = section.allow_bundled
        if skill.entry not in allowed and skill.name not in allowed and _ALL not in allowed:
            return "skills.allowBundled"
    agent_config = config.agents.by_id.get(agent)
    names = agent_config.skills if agent_config is not None else None
    if names is not None and skill.name not in names and skill.entry not in names:
        return f"agents.list[{agent}].skills"
    return ""


def _warn(faults: Iterable[SkillFault], before: Sequence[SkillFault]) -> None:
    for fault in faults:
        if fault not in before:
            logger.warning("a skill is not used: %s %s", fault.problem, fault.remedy)
