"""Named arrays in a file that is replaced atomically and read by mapping it."""

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
    """Rows of floats that are read from the file on each call.

    A mapping would count as memory of the process, 16 pages for each row that is read.
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
        """Returns the rows from `begin` to before `end`; fewer at the end of the array."""
        rows, size = min(end, self._shape[0]) - begin, self._shape[1]
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(self._offset + begin * size * 4)
            return np.fromfile(file, np.float32, rows * size).reshape(rows, size)

    def whole(self) -> NDArray[np.float32]:
        """Returns all rows."""
        return self.some(0, self._shape[0])


class DamagedError(ValueError):
    """Error: the content of a file is damaged, cut off, or of another version."""


def save(path: Path, arrays: Arrays) -> None:
    """Writes the arrays to the disk and then replaces the file `path`.

    Raises:
        OSError: the write failed; `path` is unchanged and no other file remains.
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
    """Writes the data to the disk and then replaces the file `path`.

    Raises:
        OSError: the write failed; `path` is unchanged and no other file remains.
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
    """Reads the arrays of the file, except the one named `but`, and compares their checksums.

    Raises:
        DamagedError: the file is damaged, or no file of arrays.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        header, _ = _header(file)
    for name, array in load(path).items():
        if name != but and array.size and zlib.crc32(array.data) != header["arrays"][name][3]:
            raise DamagedError(f"the checksum of {name} in {path.name} is wrong")


def load(path: Path) -> dict[str, Array]:
    """Returns the read-only arrays of the file, which remain valid if it is unlinked.

    Reads the header only and maps the arrays.

    Raises:
        DamagedError: the file is damaged, or no file of arrays.
        OSError: the file cannot be read.
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
        DamagedError: the file is damaged, or no file of arrays.
        OSError: the file cannot be read.
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
        raise DamagedError("the header of an index file is damaged")
    header = json.loads(text)
    begin = _aligned(_HEAD.size + length)
    if os.fstat(file.fileno()).st_size != begin + header["end"]:
        raise DamagedError("the length of an index file differs from its header")
    return header, begin


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
