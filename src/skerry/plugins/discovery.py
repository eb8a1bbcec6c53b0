"""Candidates for plugins: files of the configuration, installed packages and our own; none runs.

A package names its plugins in the entry points `skerry.plugins`. It is a candidate as soon as it is
installed, and is loaded when the configuration names it: in `plugins.entries` or `plugins.allow`.
Of two with one id the first counts: files in the order of `plugins.load.paths`, folders in
`extensions` of a workspace, those in `extensions` of the state directory, packages in the order of
their names, then ours. One that claims the slot of the memory is loaded when
`plugins.slots.memory` names it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from skerry.config.plugins import ID_PATTERN, PluginEntryConfig
from skerry.config.root import Config
from skerry.model.errors import PluginError
from skerry.plugins.manifest import Manifest, read_manifest
from skerry.plugins.packages import MAIN, Package, read_plugin
from skerry.plugins.requires import check_requires, check_settings

GROUP: Final = "skerry.plugins"
"""Entry points of packages that have plugins: `id = "module"` or `id = "module:register"`."""
EXTENSIONS: Final = "extensions"
"""Folder of the state directory, and of a workspace, that has folders of plugins."""
MOST_FOLDERS: Final = 200
BUNDLED: Final[Mapping[str, str]] = MappingProxyType({"memory-memwal": "skerry_memwal"})
"""Plugins of this distribution, each with the package whose module `plugin` has `register`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plugin that may be loaded."""

    id: str
    path: Path
    """The file or folder that has its code."""
    entry_point: EntryPoint | None = None
    """None for a file of the configuration."""
    package_name: str = ""
    """Name of the package of a plugin of this distribution; empty for others."""
    folder: bool = False
    """True for a folder in `extensions`, which is loaded when the configuration names it."""
    winner: str = ""
    """The candidate of the same id that comes first; empty where this one does."""

    @property
    def origin(self) -> str:
        """Returns where it was found, for people."""
        if self.package_name:
            return "the plugins of this distribution"
        if self.folder:
            return f"{self.path.parent}"
        if self.entry_point is None:
            return f"{self.path} of plugins.load.paths"
        name = self.entry_point.dist.name if self.entry_point.dist else "unknown"
        return f"the installed package {name}"

    def refusal(self, config: Config) -> str | None:
        """Returns why it is not to be loaded, or None.

        Raises:
            PluginError: it has no usable id, or another plugin has it.
        """
        if re.fullmatch(ID_PATTERN, self.id) is None:
            raise PluginError(f"{self.id!r} is not a valid id.", "Rename the file.")
        if self.winner:
            message = f"{self.winner} has the id {self.id} too and comes first."
            raise PluginError(message, "Rename one of them, or remove it.")
        return self._listed(config) or self._switched(config)

    def _listed(self, config: Config) -> str | None:
        """Returns the list that keeps it out."""
        section = config.plugins
        if self.id in section.deny:
            return "plugins.deny lists it."
        if section.allow and self.id not in section.allow:
            return "plugins.allow does not name it."
        return None

    def _switched(self, config: Config) -> str | None:
        """Returns the switch that is off."""
        section = config.plugins
        is_installed = self.entry_point is not None or bool(self.package_name) or self.folder
        if is_installed and not is_named(config, self.id):
            return f"It is installed; plugins.entries.{self.id}.enabled switches it on."
        if not entry_of(config, self.id).enabled:
            return f"plugins.entries.{self.id}.enabled is false."
        if not section.enabled:
            return "plugins.enabled is false."
        if "memory" in self.manifest().slots and section.slots.memory != self.id:
            return f"It is a memory, and plugins.slots.memory is {section.slots.memory}."
        return None

    @property
    def commands(self) -> tuple[str, ...]:
        """Returns the commands of the command line that its manifest names, beside its id."""
        try:
            return self.manifest().cli
        except PluginError:
            return ()

    def manifest(self) -> Manifest:
        """Returns its manifest; an empty one where it has none.

        Raises:
            PluginError: the manifest cannot be read.
        """
        return read_manifest(self.path)

    def package(self, config: Config) -> Package:
        """Returns its checked code.

        Raises:
            PluginError: it may not be run.
        """
        if self.package_name:
            return Package(self.package_name, {})
        manifest = self.manifest()
        check_requires(manifest, os.environ)
        check_settings(self.id, manifest, manifest.defaults | entry_of(config, self.id).config)
        workspaces = [config.workspace(agent) for agent in config.agents.ids]
        return read_plugin(self.path, entry_of(config, self.id).sha256, workspaces, self.id)

    def namespace(self, package: Package) -> Mapping[str, Any]:
        """Runs its first module and returns the names in it.

        Raises:
            Exception: whatever the plugin raises.
        """
        if self.package_name:
            return vars(import_module(f"{self.package_name}.plugin"))
        if self.entry_point is None:
            return vars(package.install())
        loaded = self.entry_point.load()
        return {"register": loaded} if callable(loaded) else vars(loaded)


def entry_of(config: Config, plugin: str) -> PluginEntryConfig:
    """Returns the section of the plugin."""
    return config.plugins.entries.get(plugin) or PluginEntryConfig()


def is_named(config: Config, plugin: str) -> bool:
    """Returns whether the configuration names the plugin by its id."""
    section = config.plugins
    return plugin in section.entries or plugin in section.allow or plugin == section.slots.memory


def candidates(config: Config, *, installed: bool) -> list[Candidate]:
    """Returns every candidate; `installed` also packages that the configuration does not name."""
    paths = [config.path.parent / path.expanduser() for path in config.plugins.load.paths]
    every = [Candidate(path.stem, path) for path in paths]
    named = {*config.plugins.entries, *config.plugins.allow, config.plugins.slots.memory}
    unseen = named - {path.stem for path in paths} - {"memory-core", "none"}
    if installed or unseen:
        folders = _extensions(config)
        every += [folder for folder in folders if installed or folder.id in unseen]
    if installed or unseen - BUNDLED.keys():
        packages = _installed()
        every += [package for package in packages if installed or is_named(config, package.id)]
    every += [ours for ours in _ours() if installed or is_named(config, ours.id)]
    first: dict[str, Candidate] = {}
    for candidate in every:
        first.setdefault(candidate.id, candidate)
    return [
        other if other is first[other.id] else replace(other, winner=first[other.id].origin)
        for other in every
    ]


def _extensions(config: Config) -> Iterator[Candidate]:
    """Yields the folders of plugins in workspaces, then those that were installed."""
    workspaces = [config.workspace(agent) for agent in config.agents.ids]
    for home in (*workspaces, config.state_dir):
        try:
            folders = sorted((home / EXTENSIONS).iterdir())[:MOST_FOLDERS]
        except OSError:
            continue
        for folder in folders:
            if (folder / MAIN).is_file() or _is_program(folder):
                yield Candidate(folder.name, folder, folder=True)


def _is_program(folder: Path) -> bool:
    """Returns whether a folder without Python has a plugin that is a process."""
    try:
        return read_manifest(folder).process is not None
    except PluginError:
        return False


def _ours() -> Iterator[Candidate]:
    """Yields the plugins of this distribution, as far as they are installed."""
    for plugin, name in BUNDLED.items():
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield Candidate(plugin, Path(spec.origin).parent, package_name=name)


def _installed() -> Iterator[Candidate]:
    """Yields the plugins of installed packages, by the names of the packages."""
    points = entry_points(group=GROUP)
    for point in sorted(
        points, key=lambda entry: (entry.dist.name if entry.dist else "", entry.name)
    ):
        # Only the first part of the name: to look for more would import it.
        spec = PathFinder.find_spec(point.module.partition(".")[0])
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            is_folder = spec.submodule_search_locations is not None
            yield Candidate(point.name, file.parent if is_folder else file, point)
