"""Finds candidates for plugins without running them: files, installed packages and bundled ones.

A package names its plugins in the entry points `skerry.plugins`. An installed package is a
candidate, and is loaded when `plugins.entries` or `plugins.allow` names it. Of candidates with one
id the first wins: files in the order of `plugins.load.paths`, folders in `extensions` of a
workspace, folders in `extensions` of the state directory, packages by name, bundled plugins. A
plugin that claims the slot of the memory is loaded when `plugins.slots.memory` names it.
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
"""Group of entry points for plugins: `id = "module"` or `id = "module:register"`."""
EXTENSIONS: Final = "extensions"
"""Folder in the state directory and in a workspace that contains folders of plugins."""
MAX_FOLDERS: Final = 200
BUNDLED: Final[Mapping[str, str]] = MappingProxyType({"memory-memwal": "skerry_memwal"})
"""Bundled plugins: the package by plugin id, whose module `plugin` has `register`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plugin that may be loaded."""

    id: str
    path: Path
    """File or folder of its code."""
    entry_point: EntryPoint | None = None
    """Entry point of an installed package; None for other plugins."""
    package_name: str = ""
    """Package of a bundled plugin; empty for other plugins."""
    folder: bool = False
    """True for a folder in `extensions`, which is loaded when the configuration names it."""
    winner: str = ""
    """Origin of the candidate with the same id that wins; empty when this one does."""

    @property
    def origin(self) -> str:
        """Returns the origin of the candidate, for messages."""
        if self.package_name:
            return "the plugins of this distribution"
        if self.folder:
            return f"{self.path.parent}"
        if self.entry_point is None:
            return f"{self.path} of plugins.load.paths"
        name = self.entry_point.dist.name if self.entry_point.dist else "unknown"
        return f"the installed package {name}"

    def refusal(self, config: Config) -> str | None:
        """Returns the reason not to load the candidate; None to load it.

        Raises:
            PluginError: the id is invalid, or another candidate with it wins.
        """
        if re.fullmatch(ID_PATTERN, self.id) is None:
            raise PluginError(f"{self.id!r} is not a valid id.", "Rename the file.")
        if self.winner:
            message = f"{self.winner} has the id {self.id} too and is used instead."
            raise PluginError(message, "Rename one of them, or remove it.")
        return self._listed(config) or self._switched(config)

    def _listed(self, config: Config) -> str | None:
        """Returns the reason when a list excludes the candidate; None otherwise."""
        section = config.plugins
        if self.id in section.deny:
            return "plugins.deny lists it."
        if section.allow and self.id not in section.allow:
            return "plugins.allow does not name it."
        return None

    def _switched(self, config: Config) -> str | None:
        """Returns the reason when a setting disables the candidate; None otherwise."""
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
        """Returns the additional commands of the command line in its manifest."""
        try:
            return self.manifest().cli
        except PluginError:
            return ()

    def manifest(self) -> Manifest:
        """Returns the manifest; an empty one when the plugin has none.

        Raises:
            PluginError: the manifest cannot be read.
        """
        return read_manifest(self.path)

    def package(self, config: Config) -> Package:
        """Reads, checks and returns its code.

        Raises:
            PluginError: the code may not be run.
        """
        if self.package_name:
            return Package(self.package_name, {})
        manifest = self.manifest()
        check_requires(manifest, os.environ)
        check_settings(self.id, manifest, manifest.defaults | entry_of(config, self.id).config)
        workspaces = [config.workspace(agent) for agent in config.agents.ids]
        return read_plugin(self.path, entry_of(config, self.id).sha256, workspaces, self.id)

    def namespace(self, package: Package) -> Mapping[str, Any]:
        """Imports its first module and returns the module's names.

        Raises:
            Exception: any exception that the plugin raises.
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
    """Returns True when the configuration contains the id of the plugin."""
    section = config.plugins
    return plugin in section.entries or plugin in section.allow or plugin == section.slots.memory


def candidates(config: Config, *, installed: bool) -> list[Candidate]:
    """Returns all candidates; with `installed` also those that the configuration does not name."""
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
    every += [
        bundled for bundled in _bundled_candidates() if installed or is_named(config, bundled.id)
    ]
    first: dict[str, Candidate] = {}
    for candidate in every:
        first.setdefault(candidate.id, candidate)
    return [
        candidate
        if candidate is first[candidate.id]
        else replace(candidate, winner=first[candidate.id].origin)
        for candidate in every
    ]


def _extensions(config: Config) -> Iterator[Candidate]:
    """Yields the folders of plugins in workspaces, then those in the state directory."""
    workspaces = [config.workspace(agent) for agent in config.agents.ids]
    for home in (*workspaces, config.state_dir):
        try:
            folders = sorted((home / EXTENSIONS).iterdir())[:MAX_FOLDERS]
        except OSError:
            continue
        for folder in folders:
            if (folder / MAIN).is_file() or _is_program(folder):
                yield Candidate(folder.name, folder, folder=True)


def _is_program(folder: Path) -> bool:
    """Returns True for a folder whose manifest has a process."""
    try:
        return read_manifest(folder).process is not None
    except PluginError:
        return False


def _bundled_candidates() -> Iterator[Candidate]:
    """Yields the bundled plugins that are installed."""
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
        # Only the first part of the name: finding a submodule would import its package.
        spec = PathFinder.find_spec(point.module.partition(".")[0])
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            is_folder = spec.submodule_search_locations is not None
            yield Candidate(point.name, file.parent if is_folder else file, point)
