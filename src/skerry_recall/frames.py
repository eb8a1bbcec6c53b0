"""Messages between a worker process and its owner, in frames.

A frame is the length of the message in four bytes, big-endian, and the message as MessagePack.
"""

import struct
from typing import Final

import msgspec

from skerry_recall.numbers import Floats, np

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""Maximum number of bytes of a frame: 4,000 vectors, far more than one request."""
HEAD: Final = struct.Struct("!I")


class Load(msgspec.Struct, tag=True, frozen=True):
    """First message to the worker: the model to load."""

    model: str
    path: str


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """First message from the worker."""

    dims: int
    text_tokens: int
    """Tokens of one text, as `lengths.tokens` counts."""


class Texts(msgspec.Struct, tag=True, frozen=True):
    """Message to the worker: texts to embed."""

    kind: str
    texts: list[str]


class EmbeddedVectors(msgspec.Struct, tag=True, frozen=True):
    """Message from the worker: float32, little-endian, row after row."""

    rows: int
    dims: int
    data: bytes


class Failed(msgspec.Struct, tag=True, frozen=True):
    """Message from the worker: the reason of a failure."""

    message: str
    remedy: str = ""


OwnerMessage = Load | Texts
WorkerMessage = Loaded | EmbeddedVectors | Failed


def frame(message: OwnerMessage | WorkerMessage) -> bytes:
    """Returns the frame of a message.

    Raises:
        ValueError: it is longer than `MAX_FRAME_BYTES`.
    """
    body = msgspec.msgpack.encode(message)
    return HEAD.pack(checked_length(len(body))) + body


def checked_length(length: int) -> int:
    """Returns the length of a frame. Raises `ValueError` for one that is too long."""
    if length > MAX_FRAME_BYTES:
        message = f"a frame of {length} bytes is too long; the limit is {MAX_FRAME_BYTES}"
        raise ValueError(message)
    return length


def decode_owner_message(body: bytes) -> OwnerMessage:
    """Decodes a message of the owner. Raises `msgspec.DecodeError`."""
    message: OwnerMessage = msgspec.msgpack.decode(body, type=Load | Texts)
    return message


def decode_worker_message(body: bytes) -> WorkerMessage:
    """Decodes a message of the worker. Raises `msgspec.DecodeError`."""
    message: WorkerMessage = msgspec.msgpack.decode(body, type=Loaded | EmbeddedVectors | Failed)
    return message


def matrix(vectors: EmbeddedVectors) -> Floats:
    """Returns the vectors; shape (rows, dims). Raises `ValueError` if their number differs."""
    return np.frombuffer(vectors.data, np.dtype("<f4")).reshape(vectors.rows, vectors.dims)
