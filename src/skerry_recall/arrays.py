"""Named arrays in a file that is written whole or not at all, and read by mapping it."""

import json
import math
import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]

_MAGIC: Final = b"SKRECALL"
_HEAD: Final = struct.Struct("<8sII")  # magic, length of the header, its checksum
_ALIGN: Final = 64
_MAX_HEADER: Final = 1 << 20


class OnDisk:
    """Rows of floats that are read when they are asked for.

    Mapped, they would be counted as memory of the process, 16 pages for each row that is touched.
    """

    def __init__(self, path: Path, offset: int, shape: tuple[int, int]) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self._offset, self._shape = offset, shape

    def take(self, rows: Array) -> NDArray[np.float32]:
        """Returns these rows; about 1.5 us each."""
        size = self._shape[1] * 4
        offsets = (self._offset + row * size for row in rows.tolist())
        parts = [os.pread(self._fd, size, offset) for offset in offsets]
        return np.frombuffer(b"".join(parts), np.float32).reshape(-1, self._shape[1])

    def some(self, begin: int, end: int) -> NDArray[np.float32]:
        """Returns those of the rows from `begin` to before `end` that there are."""
        rows, size = min(end, self._shape[0]) - begin, self._shape[1]
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(self._offset + begin * size * 4)
            return np.fromfile(file, np.float32, rows * size).reshape(rows, size)

    def whole(self) -> NDArray[np.float32]:
        """Returns all rows."""
        return self.some(0, self._shape[0])


class DamagedError(ValueError):
    """A file is not what was written: torn, cut short, or of another version."""


def save(path: Path, arrays: Arrays) -> None:
    """Writes the arrays and has them on the disk; until then `path` is what it was.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    header: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
    end = 0
    flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in flat.items():
        check = zlib.crc32(array.data) if array.size else 0
        header[name] = (array.dtype.str, array.shape, end, check)
        end = _aligned(end + array.nbytes)
    text = json.dumps({"end": end, "arrays": header}).encode()
    begin = _aligned(_HEAD.size + len(text))
    with _replacing(path) as file:
        file.write(_HEAD.pack(_MAGIC, len(text), zlib.crc32(text)) + text)
        for name, array in flat.items():
            file.seek(begin + header[name][2])
            file.write(array.data)
        file.truncate(begin + end)


def replace_file(path: Path, data: bytes) -> None:
    """Writes the file and has it on the disk; until then `path` is what it was.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    with _replacing(path) as file:
        file.write(data)


@contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def verify(path: Path, but: str) -> None:
    """Reads every byte of the file, less those of one array, and compares them with their sums.

    Raises:
        DamagedError: it is none, or not as it was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header, _ = _header(file)
    for name, array in load(path).items():
        if name != but and array.size and zlib.crc32(array.data) != header["arrays"][name][3]:
            raise DamagedError(f"{name} in {path.name} is not what was written")


def load(path: Path) -> dict[str, Array]:
    """Returns the arrays of the file, to be read only; it may be unlinked meanwhile.

    Nothing but the header is read.

    Raises:
        DamagedError: it is none, or not as it was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header, begin = _header(file)
        mapped = mmap.mmap(file.fileno(), begin + header["end"], access=mmap.ACCESS_READ)
    arrays: dict[str, Array] = {}
    for name, (dtype, shape, offset, _) in header["arrays"].items():
        count = math.prod(shape)
        array = np.frombuffer(mapped, dtype, count, begin + offset) if count else np.empty(0, dtype)
        arrays[name] = array.reshape(shape)
    return arrays


def on_disk(path: Path, name: str) -> OnDisk:
    """Returns the rows of one array of the file without mapping them.

    Raises:
        DamagedError: it is none, or not as it was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header, begin = _header(file)
    _, shape, offset, _ = header["arrays"][name]
    return OnDisk(path, begin + offset, tuple(shape))


def _header(file: BinaryIO) -> tuple[Any, int]:
    """Reads the header: the description of the arrays, and the offset of the first."""
    magic, length, crc = _HEAD.unpack(file.read(_HEAD.size).ljust(_HEAD.size))
    text = file.read(length) if magic == _MAGIC and length <= _MAX_HEADER else b""
    if not text or zlib.crc32(text) != crc:
        raise DamagedError("an index file is torn, or none")
    header = json.loads(text)
    begin = _aligned(_HEAD.size + length)
    if os.fstat(file.fileno()).st_size != begin + header["end"]:
        raise DamagedError("an index file has not the length that it says")
    return header, begin


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
