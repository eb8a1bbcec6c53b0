"""Reads and imports a plugin of several files: a folder with `__init__.py`.

Its modules are imported from the checked bytes, so that a change of a file after the check has no
effect.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from skerry.model.errors import PluginError
from skerry.plugins.manifest import read_manifest
from skerry.plugins.source_check import PluginSource, read_source

MAX_FILES: Final = 200
MAIN: Final = "__init__.py"
_CACHES: Final = frozenset({"__pycache__", ".git"})
"""Folders whose files are not part of a plugin."""


class Package(MetaPathFinder, InspectLoader):
    """The checked modules of a plugin by name; `install` imports them."""

    def __init__(self, name: str, sources: Mapping[str, PluginSource]) -> None:
        self.name = name
        self._sources = sources

    @property
    def files(self) -> int:
        """Returns the number of checked files; 0 for a bundled plugin."""
        return len(self._sources)

    @property
    def sha256(self) -> str:
        """Returns the hash over all files; for a single file its own hash."""
        if len(self._sources) == 1:
            return next(iter(self._sources.values())).sha256
        lines = (f"{name} {source.sha256}\n" for name, source in sorted(self._sources.items()))
        return sha256("".join(lines).encode()).hexdigest()

    def module_of(self, path: str) -> str | None:
        """Returns the module name of a file, from its path relative to the plugin's folder."""
        main = self._sources.get(self.name)
        if main is None:
            return None
        file = main.path.parent / path
        return next((name for name, source in self._sources.items() if source.path == file), None)

    def install(self) -> ModuleType:
        """Imports the first module and returns it; it imports the others.

        Raises:
            Exception: any exception that the plugin raises.
        """
        self.remove()
        sys.meta_path.append(self)
        spec = self.find_spec(self.name)
        assert spec is not None, "a package has its first module"  # noqa: S101 - for the type checker
        module = module_from_spec(spec)
        sys.modules[self.name] = module  # dataclasses and pydantic look their modules up
        self.exec_module(module)
        return module

    def remove(self) -> None:
        """Removes the modules of the plugin, and of an earlier plugin with its id."""
        if not self.files:
            return  # the modules of a bundled plugin are kept
        names = list(sys.modules)  # a copy: another thread may be importing
        for name in [module for module in names if f"{module}.".startswith(f"{self.name}.")]:
            del sys.modules[name]
        for finder in [entry for entry in sys.meta_path if getattr(entry, "name", "") == self.name]:
            sys.meta_path.remove(finder)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module of the plugin; `path` and `target` are the importer's and not used."""
        del path, target
        if fullname not in self._sources:
            return None
        source = self._sources[fullname].path
        spec = ModuleSpec(fullname, self, origin=str(source), is_package=self.is_package(fullname))
        spec.has_location = True  # so that `__file__` is the path of the module
        return spec

    def is_package(self, fullname: str) -> bool:
        """Returns True for a module with submodules."""
        return self._sources[fullname].path.name == MAIN

    def get_code(self, fullname: str) -> CodeType:
        """Compiles a module.

        Raises:
            SyntaxError, ValueError: the module is not valid Python.
        """
        source = self._sources[fullname]
        return compile(source.code, str(source.path), "exec")

    def get_source(self, fullname: str) -> str:
        """Returns the text of a module, for tracebacks."""
        return self._sources[fullname].code.decode("utf-8", "replace")

    def compile(self) -> None:
        """Compiles all modules, and runs none.

        Raises:
            SyntaxError, ValueError: a module is not valid Python.
        """
        for name in self._sources:
            self.get_code(name)


class ProgramFiles(Package):
    """The checked files of a plugin that runs as a process; none is imported."""

    def compile(self) -> None:
        """Does nothing: the files need not be Python."""

    def remove(self) -> None:
        """Does nothing: none of it is imported."""


def read_plugin(
    path: Path, pinned: str | None, workspaces: Iterable[Path], plugin: str = ""
) -> Package:
    """Returns the checked code of a plugin: one file, or a folder of them.

    Args:
        path: The file, or the folder with `__init__.py`.
        pinned: Required SHA-256; None accepts any, except in a workspace.
        workspaces: Directories that agents write to.
        plugin: The id, if it is not the name of the file or folder.

    Raises:
        PluginError: the code may not be run; message and `remedy` are for the owner.
    """
    plugin = plugin or path.stem
    name = f"skerry_plugin_{plugin.replace('-', '_')}"
    setting = f"plugins.entries.{plugin}.sha256"
    if not path.is_dir():
        return Package(name, {name: read_source(path, pinned, workspaces, setting)})
    if read_manifest(path).process is not None:
        return _read_program(path, pinned, workspaces, plugin)
    files = sorted(path.rglob("*.py"))
    if not (path / MAIN).is_file() or len(files) > MAX_FILES:
        message = f"{path} has no {MAIN}, or more than {MAX_FILES} files."
        raise PluginError(message, "Correct plugins.load.paths.")
    agent_folders = () if pinned else tuple(workspaces)
    sources = {
        _module(name, path, file): read_source(file, None, agent_folders, setting) for file in files
    }
    return _pinned(Package(name, sources), path, pinned, setting)


def _read_program(
    path: Path, pinned: str | None, workspaces: Iterable[Path], plugin: str
) -> Package:
    """Reads and checks the files of a plugin that runs as a process.

    Raises:
        PluginError: another user could have written one of them.
    """
    setting = f"plugins.entries.{plugin}.sha256"
    files = [file for file in sorted(path.rglob("*")) if not file.is_dir()]
    files = [file for file in files if not _CACHES & set(file.relative_to(path).parts)]
    if len(files) > MAX_FILES:
        raise PluginError(f"{path} has more than {MAX_FILES} files.", "Move data elsewhere.")
    agent_folders = () if pinned else tuple(workspaces)
    sources = {
        file.relative_to(path).as_posix(): read_source(file, None, agent_folders, setting)
        for file in files
    }
    return _pinned(ProgramFiles(plugin, sources), path, pinned, setting)


def _pinned(package: Package, path: Path, pinned: str | None, setting: str) -> Package:
    if pinned is not None and package.sha256 != pinned:
        message = f"{path} is not the folder that was pinned; a file of it has changed."
        raise PluginError(message, f'Look at it, then pin it: {setting} = "{package.sha256}".')
    return package


def _module(name: str, root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join((name, *(parts[:-1] if parts[-1] == "__init__" else parts)))
