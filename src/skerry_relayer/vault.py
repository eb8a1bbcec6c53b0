"""Encrypts texts and vectors to blobs, and decrypts them."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from skerry_relayer.blobs import (
    Blob,
    BlobError,
    BlobStore,
    Header,
    Wrap,
    encoded,
    make_blob,
    unpacked,
)
from skerry_relayer.envelope import Binding, EnvelopeError, SealKey, new_key, seal, unseal, wrap
from skerry_relayer.index import Memory
from skerry_relayer.keys.client import KeyClient
from skerry_relayer.keys.framing import Wrapped
from skerry_relayer.sessions import Certificate


class Content(msgspec.Struct, frozen=True, array_like=True):
    """Decrypted content of a blob, from which an index row is rebuilt without the model."""

    text: str
    """Text; empty if the client encrypted it."""
    space: str
    vector: bytes
    """Floats of 32 bits."""


@dataclass(frozen=True, slots=True)
class OpenedBlob:
    """A blob with its content."""

    blob: Blob
    content: Content


def binding_of(header: Header) -> Binding:
    """Returns the binding of the memory of a header."""
    return Binding(header.owner, header.account, header.namespace, header.id)


def closed(header: Header, content: Content, key: SealKey, encrypted: bytes | None = None) -> Blob:
    """Returns the blob of a memory; its body is `encrypted` if the client encrypted the text."""
    text_key, binding = new_key(), binding_of(header)
    plain = msgspec.msgpack.encode(content)
    wrapped = Wrap(key.generation, wrap(text_key, key.public, binding))
    if encrypted is None:
        head = encoded(header)
        return make_blob(header, head, wrapped, seal(plain, text_key, binding, head))
    sealed = seal(plain, text_key, binding)
    header = msgspec.structs.replace(header, vector=sealed, manual=True)
    return make_blob(header, encoded(header), wrapped, encrypted)


class Vault:
    """Opens blobs of owners with the certificates of their delegates."""

    def __init__(self, keys: KeyClient, blobs: BlobStore) -> None:
        self._keys = keys
        self._blobs = blobs

    async def open(
        self, certificate: Certificate, owner: str, memories: Sequence[Memory]
    ) -> list[OpenedBlob | None]:
        """Returns the contents of memories in their order; None for a missing or changed blob.

        Raises:
            NoCertificateError, ForbiddenError, DownError: of the key server.
            OSError: the blobs cannot be read.
        """
        files = await self._blobs.get(owner, [memory.blob_id for memory in memories])
        blobs = [_checked(memory, file) for memory, file in zip(memories, files, strict=True)]
        return await self.open_blobs(certificate, owner, blobs)

    async def open_blobs(
        self, certificate: Certificate, owner: str, blobs: Sequence[Blob | None]
    ) -> list[OpenedBlob | None]:
        """Returns the contents of blobs of an owner in their order."""
        wrapped = [wrapped_key(blob) for blob in blobs if blob is not None]
        if not wrapped:
            return [None] * len(blobs)
        keys = iter(await self._keys.unseal(certificate, owner, wrapped))
        return [None if blob is None else _content(blob, next(keys)) for blob in blobs]


def wrapped_key(blob: Blob) -> Wrapped:
    """Returns the wrapped key of a blob in the form of a request to the key server."""
    header, wrap_ = blob.header, blob.wrap
    return Wrapped(header.account, header.namespace, header.id, wrap_.generation, wrap_.wrapped)


def _checked(memory: Memory, file: bytes | None) -> Blob | None:
    """Returns the blob of a row; None if its file is missing, changed, or of another row."""
    if file is None:
        return None
    try:
        blob = unpacked(file, memory.blob_id)
    except BlobError:
        return None
    header = blob.header
    belongs = (header.id, header.owner, header.namespace)
    return blob if belongs == (memory.id, memory.owner, memory.namespace) else None


def _content(blob: Blob, key: bytes | None) -> OpenedBlob | None:
    if key is None:
        return None
    try:
        binding = binding_of(blob.header)
        if blob.header.manual:
            plain = unseal(blob.header.vector, key, binding)
        else:
            plain = unseal(blob.body, key, binding, blob.head)
        return OpenedBlob(blob, msgspec.msgpack.decode(plain, type=Content))
    except (EnvelopeError, msgspec.MsgspecError):
        return None
