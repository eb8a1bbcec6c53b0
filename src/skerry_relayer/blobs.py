"""Blobs: the ciphertext of one memory, with a header from which its index row can be rebuilt."""

import base64
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio.to_thread
import msgspec

from skerry_relayer.sqlite_files import PRIVATE, private_folder

MAGIC: Final = b"SKRB1\n"
HEAD_BYTES: Final = 64 * 1024
"""Maximum size of the wrap and the header at the beginning of a file, in bytes."""
_LENGTH: Final = 4
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_OWNER: Final = re.compile(r"0x[0-9a-f]{64}")
_PART: Final = ".part"


class BlobError(ValueError):
    """Error: the bytes are not a blob, or not the blob of its id."""


class Wrap(msgspec.Struct, frozen=True, array_like=True):
    """Key of a blob, wrapped to a key of the owner; `rewrap` replaces only this."""

    generation: int
    wrapped: bytes


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields of an index row except text and vector, which are encrypted."""

    id: str
    owner: str
    account: str
    namespace: str
    created_at: int
    """Milliseconds since 1970."""
    importance: float = 0.5
    agent_id: str | None = None
    package_id: str | None = None
    vector: bytes = b""
    """Encrypted vector if the client encrypted the text; otherwise the body contains the vector."""
    manual: bool = False
    """True when the client encrypted the body."""


class Blob(msgspec.Struct, frozen=True):
    """A stored blob."""

    id: str
    """Hash of header and body: a local id, not one of a network."""
    wrap: Wrap
    header: Header
    head: bytes
    """The header as bytes, to which the body is bound."""
    body: bytes


def make_blob(header: Header, head: bytes, wrap: Wrap, body: bytes) -> Blob:
    """Returns the blob of these parts; `head` is `encoded(header)`."""
    return Blob(_id(_core(head, body)), wrap, header, head, body)


def encoded(header: Header) -> bytes:
    """Returns the header as bytes."""
    return msgspec.msgpack.encode(header)


def packed(blob: Blob) -> bytes:
    """Returns a blob as the bytes of its file."""
    wrap = msgspec.msgpack.encode(blob.wrap)
    return MAGIC + len(wrap).to_bytes(_LENGTH, "big") + wrap + _core(blob.head, blob.body)


def unpacked(data: bytes, blob_id: str) -> Blob:
    """Returns the blob of a file.

    Raises:
        BlobError: the bytes are not a blob, or their hash is not the id.
    """
    blob = _split(data)
    if blob.id != blob_id:
        raise BlobError(f"The blob {blob_id} has changed: its hash is {blob.id}.")
    return blob


def header_of(head: bytes) -> Header:
    """Returns the header from the first `HEAD_BYTES` of a file, whose hash is not checked.

    Raises:
        BlobError: the bytes are not a blob.
    """
    return _split(head).header


def _split(data: bytes) -> Blob:
    if not data.startswith(MAGIC):
        raise BlobError("The bytes are not a blob of this relayer.")
    try:
        wrap_bytes, at = _part(data, len(MAGIC))
        head, after = _part(data, at)
        wrap = msgspec.msgpack.decode(wrap_bytes, type=Wrap)
        header = msgspec.msgpack.decode(head, type=Header)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BlobError("The blob is cut off, or its header is invalid.") from error
    return Blob(_id(data[at:]), wrap, header, head, data[after:])


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    begin = at + _LENGTH
    end = begin + int.from_bytes(data[at:begin], "big")
    if end > len(data):
        raise ValueError("cut off")
    return data[begin:end], end


def _core(head: bytes, body: bytes) -> bytes:
    return len(head).to_bytes(_LENGTH, "big") + head + body


def _id(core: bytes) -> str:
    digest = hashlib.blake2b(core, digest_size=32).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class BlobStore(Protocol):
    """Files of blobs by owner and id. A failed operation raises `OSError`."""

    async def put(self, owner: str, blob_id: str, data: bytes) -> None:
        """Stores a file durably; replaces a file with the same id."""
        ...

    async def get(self, owner: str, ids: Sequence[str]) -> list[bytes | None]:
        """Returns the files in the order of `ids`, None for each missing one."""
        ...

    async def delete(self, owner: str, ids: Sequence[str]) -> None:
        """Deletes files; ignores missing ones."""
        ...

    async def heads(self, owner: str) -> list[tuple[str, bytes]]:
        """Returns id and first `HEAD_BYTES` of each file of an owner."""
        ...


class FolderBlobs:
    """Blobs in a folder, one folder for each owner in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)

    async def put(self, owner: str, blob_id: str, data: bytes) -> None:
        """Stores a file; returns after it and its name are on the disk."""
        await anyio.to_thread.run_sync(self._put, owner, blob_id, data)

    async def get(self, owner: str, ids: Sequence[str]) -> list[bytes | None]:
        """Returns the files in the order of `ids`, None for each missing one."""
        return await anyio.to_thread.run_sync(self._get, owner, ids)

    async def delete(self, owner: str, ids: Sequence[str]) -> None:
        """Deletes files; returns after the folder has been synced to the disk."""
        await anyio.to_thread.run_sync(self._delete, owner, ids)

    async def heads(self, owner: str) -> list[tuple[str, bytes]]:
        """Returns id and first `HEAD_BYTES` of each file of an owner."""
        return await anyio.to_thread.run_sync(lambda: list(self._heads(owner)))

    def all(self) -> Iterator[tuple[str, str]]:
        """Yields owner and id of each file."""
        for folder in sorted(self._folder.iterdir()):
            if _OWNER.fullmatch(owner := "0x" + folder.name):
                yield from (
                    (owner, path.name) for path in folder.iterdir() if _ID.fullmatch(path.name)
                )

    def _path(self, owner: str, blob_id: str) -> Path:
        if not _OWNER.fullmatch(owner) or not _ID.fullmatch(blob_id):
            raise BlobError(f"{blob_id[:60]!r} of {owner[:80]!r} is not the id of a blob.")
        return self._folder / owner[2:] / blob_id

    def _put(self, owner: str, blob_id: str, data: bytes) -> None:
        path = self._path(owner, blob_id)
        if not path.parent.exists():
            private_folder(path.parent)
            _sync_folder(self._folder)
        part = path.with_name(f"{blob_id}.{secrets.token_hex(4)}{_PART}")
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)

    def _get(self, owner: str, ids: Sequence[str]) -> list[bytes | None]:
        files: list[bytes | None] = []
        for blob_id in ids:
            try:
                files.append(self._path(owner, blob_id).read_bytes())
            except FileNotFoundError:
                files.append(None)
        return files

    def _delete(self, owner: str, ids: Sequence[str]) -> None:
        for blob_id in ids:
            self._path(owner, blob_id).unlink(missing_ok=True)
        if ids and (folder := self._path(owner, ids[0]).parent).exists():
            _sync_folder(folder)

    def _heads(self, owner: str) -> Iterator[tuple[str, bytes]]:
        folder = self._folder / owner[2:]
        if not _OWNER.fullmatch(owner) or not folder.is_dir():
            return
        for path in sorted(folder.iterdir()):
            if _ID.fullmatch(path.name):
                with path.open("rb") as file:
                    yield path.name, file.read(HEAD_BYTES)
            elif path.name.endswith(_PART):
                continue


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
