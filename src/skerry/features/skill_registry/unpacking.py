"""Reads the files of a zip or tar archive of a stranger, within limits; writes nothing.

A member must be a plain file or a folder below the root of the archive. Sizes are counted while a
member is unpacked, since its header may lie. Sources: security notes, cases 81 and 82 (zip slip,
links, archive bombs); PEP 706 for tar.
"""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping
from io import BufferedIOBase
from pathlib import PurePosixPath
from typing import IO, Final

from msgspec import Struct

from skerry.features.skill_registry.errors import SkillError

MAX_PATH: Final = 240
"""Limit of the path of a member, in characters."""
MAX_DEPTH: Final = 10
_MAX_RATIO: Final = 200
"""Limit of unpacked bytes for each packed byte of a large member."""
_UNCHECKED_BYTES: Final = 64 * 1024
"""Unpacked bytes below which the ratio is not checked: text of one letter packs well."""
_CHUNK: Final = 64 * 1024
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED: Final = 0x1
_EXECUTABLE: Final = 0o100
_COMPRESSIONS: Final[Mapping[bytes, Callable[[io.BytesIO], BufferedIOBase]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""Readers by the first bytes of the data."""


class ArchiveLimits(Struct, frozen=True):
    """Limits on the files of an archive."""

    files: int
    file_bytes: int
    total_bytes: int


_MB: Final = 1024 * 1024
SKILL_LIMITS: Final = ArchiveLimits(files=200, file_bytes=2 * _MB, total_bytes=10 * _MB)
TOOL_LIMITS: Final = ArchiveLimits(files=20_000, file_bytes=300 * _MB, total_bytes=600 * _MB)


class Member(Struct, frozen=True):
    """A file of an archive."""

    path: str
    """Path below the root of the archive, with `/`."""
    data: bytes
    is_executable: bool = False


def unpacked(data: bytes, limits: ArchiveLimits, kind: str = "zip") -> list[Member]:
    """Returns the files of an archive in its order.

    Args:
        data: The archive.
        limits: Limits on its files.
        kind: `zip`, or `tar` with any compression of `tarfile`.

    Raises:
        SkillError: the archive is damaged, exceeds a limit, or has a member that is not a plain
            file below its root.
    """
    read = _zip_members if kind == "zip" else _tar_members
    members: list[Member] = []
    total = 0
    try:
        for member in read(data, limits, _Names()):
            members.append(member)
            total += len(member.data)
            _check_total(total, limits)
    except SkillError:
        raise
    except Exception as error:
        # Damaged data raises errors of zipfile, tarfile, zlib, lzma and more.
        raise _refused(f"it is damaged ({error})") from error
    return members


class _Names:
    """Checks each path of an archive, alone and beside the earlier paths."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def add(self, name: str, *, is_folder: bool) -> str:
        """Returns the path of a member. Raises `SkillError` when it is not acceptable."""
        path = checked_path(name)
        parts = path.split("/")
        for end in range(1, len(parts) + is_folder):
            self._add_folder("/".join(parts[:end]))
        if not is_folder:
            key = _key(path)
            if key in self._files or key in self._folders:
                raise _refused(f"two members have the path {path!r}, or differ only in case")
            self._files[key] = path
        return path

    def _add_folder(self, path: str) -> None:
        key = _key(path)
        if key in self._files or self._folders.setdefault(key, path) != path:
            raise _refused(f"two members have the path {path!r}, or differ only in case")


def checked_path(name: str) -> str:
    """Returns a path below a root, without a final slash.

    Raises:
        SkillError: the path is absolute, leads out of the root, or has unusual characters.
    """
    path = name.removesuffix("/")
    parts = path.split("/")
    if (
        not path
        or len(path) > MAX_PATH
        or len(parts) > MAX_DEPTH
        or not path.isprintable()
        or any(character in path for character in '\\:*?"<>|')
        or any(part in {"", ".", ".."} or part != part.strip() for part in parts)
        or PurePosixPath(path).is_absolute()
    ):
        raise _refused(f"the path {name[:80]!r} of a member is not permitted")
    return path


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _refused(reason: str) -> SkillError:
    return SkillError(f"The archive was refused: {reason}.", "Do not use it.")


def _zip_members(data: bytes, limits: ArchiveLimits, names: _Names) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        _check_count(len(infos), limits)
        for info in infos:
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
                raise _refused(f"{info.filename[:80]!r} is a link or a device")
            if info.flag_bits & _ENCRYPTED:
                raise _refused(f"{info.filename[:80]!r} is encrypted")
            if info.compress_type not in _METHODS:
                raise _refused(f"{info.filename[:80]!r} has an unknown compression")
            path = names.add(info.orig_filename, is_folder=info.is_dir())
            if info.is_dir():
                continue
            with archive.open(info) as file:
                content = _content(file, path, info.compress_size, limits)
            yield Member(path, content, is_executable=bool(mode & _EXECUTABLE))


def _tar_members(data: bytes, limits: ArchiveLimits, names: _Names) -> Iterator[Member]:
    plain = _decompressed(data, limits.total_bytes)
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for number, info in enumerate(archive, 1):
            _check_count(number, limits)
            if not (info.isreg() or info.isdir()) or info.issparse():
                raise _refused(f"{info.name[:80]!r} is a link or a device")
            if info.isdir() and info.name == ".":
                continue
            path = names.add(info.name.removeprefix("./"), is_folder=info.isdir())
            file = archive.extractfile(info)
            if file is not None:
                content = _content(file, path, info.size, limits)
                yield Member(path, content, is_executable=bool(info.mode & _EXECUTABLE))


def _decompressed(data: bytes, limit: int) -> bytes:
    """Returns the tar in `data`; `tarfile` alone would unpack headers of any size."""
    for magic, opened in _COMPRESSIONS.items():
        if data.startswith(magic):
            with opened(io.BytesIO(data)) as file:
                plain = file.read(limit + 1)
            if len(plain) > limit:
                raise _refused(f"it unpacks to more than {limit} bytes")
            return plain
    return data


def _check_total(total: int, limits: ArchiveLimits) -> None:
    if total > limits.total_bytes:
        raise _refused(f"it unpacks to more than {limits.total_bytes} bytes")


def _check_count(number: int, limits: ArchiveLimits) -> None:
    if number > limits.files:
        raise _refused(f"it has more than {limits.files} files")


def _content(file: IO[bytes], path: str, packed: int, limits: ArchiveLimits) -> bytes:
    """Reads one member, counting the bytes."""
    content = bytearray()
    while part := file.read(_CHUNK):
        content += part
        if len(content) > limits.file_bytes:
            raise _refused(f"{path!r} has more than {limits.file_bytes} bytes")
        if len(content) > _UNCHECKED_BYTES and len(content) > _MAX_RATIO * max(packed, 1):
            raise _refused(f"{path!r} unpacks to more than {_MAX_RATIO} times its size")
    return bytes(content)
