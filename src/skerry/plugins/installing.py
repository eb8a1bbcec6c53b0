"""Installs a plugin from a folder or a wheel: copies and checks its files, without running them."""

import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from skerry.config.plugins import ID_PATTERN
from skerry.infra.atomic import make_private
from skerry.model.errors import PluginError
from skerry.plugins.manifest import Manifest, read_manifest
from skerry.plugins.packages import MAIN, read_plugin

MAX_FILES: Final = 500
MAX_BYTES: Final = 20 * 1024 * 1024
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})
_WHEEL: Final = ".whl"


class Installed(Struct, frozen=True):
    """An installed plugin."""

    id: str
    path: Path
    sha256: str
    manifest: Manifest


def install(source: Path, extensions: Path) -> Installed:
    """Copies a plugin into a new folder in `extensions`.

    Args:
        source: A folder with `__init__.py`, or a wheel with one package.
        extensions: Folder of installed plugins; created if missing.

    Raises:
        PluginError: the source is not a plugin, is too large, is not valid Python, or a plugin with
            its id is installed.
    """
    make_private(extensions)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=extensions) as temporary:
        copy = Path(temporary) / "plugin"
        copy.mkdir(mode=0o700)
        if source.suffix == _WHEEL:
            name = _unpacked(source, copy)
        elif source.is_dir():
            name = source.resolve().name
            _copied(source, copy)
        else:
            raise PluginError(
                f"{source} is neither a folder nor a wheel.", "Name a folder or a .whl file."
            )
        manifest = read_manifest(copy)
        if not (copy / MAIN).is_file() and manifest.process is None:
            raise PluginError(
                f"{source} has no {MAIN}, so it is not a plugin.", _folder_to_pass(source)
            )
        plugin = manifest.id or name
        if re.fullmatch(ID_PATTERN, plugin) is None:
            raise PluginError(f"{plugin!r} is not a valid id.", "Rename the folder.")
        target = extensions / plugin
        if target.exists():
            remedy = f"To replace it: skerry plugins remove {plugin}"
            raise PluginError(f"The plugin {plugin} is installed in {target} already.", remedy)
        package = read_plugin(copy, None, (), plugin)
        try:
            package.compile()
        except (SyntaxError, ValueError) as error:
            raise PluginError(f"{source} is not Python: {error}", "Correct it.") from error
        copy.rename(target)
    return Installed(plugin, target, package.sha256, manifest)


def remove(extensions: Path, plugin: str) -> bool:
    """Removes the files of an installed plugin; returns False when there are none."""
    target = extensions / plugin
    if re.fullmatch(ID_PATTERN, plugin) is None or not target.is_dir():
        return False
    shutil.rmtree(target)
    return True


def _copied(source: Path, target: Path) -> None:
    size = 0
    for number, file in enumerate(_files(source)):
        size += file.stat().st_size
        _check_size(number, size)
        copy = target / file.relative_to(source)
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy.touch(mode=0o700 if file.stat().st_mode & stat.S_IXUSR else 0o600)
        copy.write_bytes(file.read_bytes())


def _files(source: Path) -> Iterator[Path]:
    """Yields the files of a folder, without hidden files and caches. Raises for a link."""
    for entry in sorted(source.iterdir()):
        if entry.name in _LEFT_OUT or entry.name.startswith("."):
            continue
        if entry.is_symlink():
            raise PluginError(f"{entry} is a link.", "Replace it by the file.")
        if entry.is_dir():
            yield from _files(entry)
        elif entry.is_file():
            yield entry


def _folder_to_pass(source: Path) -> str:
    """Returns the remedy for a folder that may have the folder of a plugin inside."""
    inner = next((file.parent for file in sorted(source.glob(f"*/{MAIN}"))), None)
    return f"Pass the folder that has {MAIN}{f', such as {inner}' if inner else ''}."


def _unpacked(wheel: Path, target: Path) -> str:
    """Unpacks the only package of a wheel; returns its name."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            package = _package(wheel, [info.filename for info in members])
            size = 0
            for number, info in enumerate(members):
                parts = PurePosixPath(info.filename).parts
                if parts[0] != package:
                    continue
                size += info.file_size
                _check_size(number, size)
                copy = target.joinpath(*parts[1:])
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                copy.touch(mode=0o600)
                with archive.open(info) as member:
                    copy.write_bytes(member.read(info.file_size + 1))
    except (OSError, zipfile.BadZipFile) as error:
        raise PluginError(f"{wheel} cannot be unpacked: {error}", "Name a wheel.") from error
    return package


def _package(wheel: Path, names: list[str]) -> str:
    """Returns the name of the only package.

    Raises:
        PluginError: a path leads out of the archive, or there is no or more than one package.
    """
    paths = [PurePosixPath(name) for name in names]
    if any(path.is_absolute() or ".." in path.parts or "\\" in str(path) for path in paths):
        raise PluginError(f"{wheel} has names that lead out of it.", "Do not use it.")
    packages = sorted({path.parts[0] for path in paths if path.parts[1:] == (MAIN,)})
    if len(packages) != 1:
        raise PluginError(f"{wheel} has {len(packages)} packages, not one.", "Unpack it yourself.")
    return packages[0]


def _check_size(files: int, size: int) -> None:
    if files >= MAX_FILES or size > MAX_BYTES:
        raise PluginError(
            f"It has more than {MAX_FILES} files or {MAX_BYTES >> 20} MB.", "It is no plugin."
        )
