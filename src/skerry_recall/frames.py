"""Messages between a worker process and its owner: frames of a length and a message.

Four bytes, big-endian, hold the length of what follows: MessagePack of one of the messages here.
"""

import struct
from typing import Final

import msgspec

from skerry_recall.numbers import Floats, np

LONGEST: Final = 16 * 1024 * 1024
"""Bytes of a frame: 4,000 vectors, or all that is asked at once many times over."""
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


Asked = Load | Texts
Told = Loaded | EmbeddedVectors | Failed


def frame(message: Asked | Told) -> bytes:
    """Returns the bytes of a message.

    Raises:
        ValueError: it is longer than a frame may be.
    """
    body = msgspec.msgpack.encode(message)
    return HEAD.pack(checked_length(len(body))) + body


def checked_length(length: int) -> int:
    """Returns the length of a frame. Raises `ValueError` for one that is too long."""
    if length > LONGEST:
        message = f"a frame of {length} bytes; {LONGEST} are allowed"
        raise ValueError(message)
    return length


def asked(body: bytes) -> Asked:
    """Decodes a message of the owner. Raises `msgspec.DecodeError`."""
    message: Asked = msgspec.msgpack.decode(body, type=Load | Texts)
    return message


def told(body: bytes) -> Told:
    """Decodes a message of the worker. Raises `msgspec.DecodeError`."""
    message: Told = msgspec.msgpack.decode(body, type=Loaded | EmbeddedVectors | Failed)
    return message


def matrix(vectors: EmbeddedVectors) -> Floats:
    """Returns the numbers; shape (rows, dims). Raises `ValueError` if they are not as many."""
    return np.frombuffer(vectors.data, np.dtype("<f4")).reshape(vectors.rows, vectors.dims)
