"""Messages between the relayer and the key server: msgpack behind four bytes of length."""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from skerry_relayer.envelope import Binding

LENGTH_BYTES: Final = 4
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_ITEMS: Final = 1000
"""Maximum number of keys in one message."""
Decoded = TypeVar("Decoded")


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Requests the identity of the key server."""


class Resolve(msgspec.Struct, frozen=True, tag=True):
    """Requests the active account of a key."""

    public_key: str
    account_id: str | None


class OwnerKeys(msgspec.Struct, frozen=True, tag=True):
    """Requests the public key for new texts of an owner; `queue` for waiting texts."""

    owner: str


class Wrapped(msgspec.Struct, frozen=True):
    """Wrapped key of one text, and its binding."""

    account: str
    namespace: str
    id: str
    generation: int
    wrapped: bytes

    def binding(self, owner: str, purpose: str = "memory") -> Binding:
        """Returns the binding."""
        return Binding(owner, self.account, self.namespace, self.id, purpose)


class Unseal(msgspec.Struct, frozen=True, tag=True):
    """Requests the keys of an owner's memories, with a delegate's certificate."""

    public_key: str
    certificate: str
    owner: str
    items: list[Wrapped]


class OpenWaiting(msgspec.Struct, frozen=True, tag=True):
    """Requests the keys of waiting texts, without a certificate."""

    owner: str
    items: list[Wrapped]


class Rewrap(msgspec.Struct, frozen=True, tag=True):
    """Requests keys of an owner's memories, wrapped to the newest generation."""

    owner: str
    items: list[Wrapped]


class Delegates(msgspec.Struct, frozen=True, tag=True):
    """Requests the delegates of an account."""

    account_id: str


class AddDelegate(msgspec.Struct, frozen=True, tag=True):
    """Adds a delegate to an account."""

    account_id: str
    public_key: str
    label: str
    namespaces: list[str] | None


class RevokeDelegate(msgspec.Struct, frozen=True, tag=True):
    """Removes a delegate of an account."""

    account_id: str
    public_key: str


Request = (
    Hello
    | Resolve
    | OwnerKeys
    | Unseal
    | OpenWaiting
    | Rewrap
    | Delegates
    | AddDelegate
    | RevokeDelegate
)


class KeyFailure(msgspec.Struct, frozen=True, tag="Failure"):
    """The request was refused; `status` is the HTTP status of the error."""

    status: int
    message: str


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """Answers `Hello`."""

    package_id: str


class AccountFound(msgspec.Struct, frozen=True, tag=True):
    """Answers `Resolve`; without an id the account does not exist."""

    id: str = ""
    owner: str = ""
    label: str = ""
    namespaces: list[str] | None = None


class Keys(msgspec.Struct, frozen=True, tag=True):
    """Answers `OwnerKeys`; the tag key is empty for the queue."""

    public: bytes
    generation: int
    tag_key: bytes


class Unwrapped(msgspec.Struct, frozen=True, tag=True):
    """Answers `Unseal` and `OpenWaiting`: keys in the requested order, None if not permitted."""

    keys: list[bytes | None]


class Rewrapped(msgspec.Struct, frozen=True, tag=True):
    """Answers `Rewrap`: wrapped keys in the requested order, None if not permitted."""

    generation: int
    wrapped: list[bytes | None]


class DelegateRow(msgspec.Struct, frozen=True, tag=True):
    """One delegate."""

    public_key: str
    label: str
    address: str
    created_at_ms: int
    namespaces: list[str] | None


class DelegateRows(msgspec.Struct, frozen=True, tag=True):
    """Answers `Delegates`."""

    rows: list[DelegateRow]


class Revoked(msgspec.Struct, frozen=True, tag=True):
    """Answers `RevokeDelegate`."""

    there: bool


Response = (
    KeyFailure
    | Welcome
    | AccountFound
    | Keys
    | Unwrapped
    | Rewrapped
    | DelegateRow
    | DelegateRows
    | Revoked
)

_ENCODER: Final = msgspec.msgpack.Encoder()
read_request: Final[Callable[[bytes], Request]] = msgspec.msgpack.Decoder(Request).decode
read_response: Final[Callable[[bytes], Response]] = msgspec.msgpack.Decoder(Response).decode


class FrameError(ValueError):
    """Error: the peer sent an invalid message."""


async def send(stream: anyio.abc.ByteSendStream, message: Request | Response) -> None:
    """Sends one message.

    Raises:
        FrameError: the message is larger than 4 MiB.
    """
    body = _ENCODER.encode(message)
    if len(body) > MAX_BYTES:
        raise FrameError(f"a message of {len(body)} bytes is larger than {MAX_BYTES}")
    await stream.send(len(body).to_bytes(LENGTH_BYTES, "big") + body)


async def receive(stream: BufferedByteReceiveStream, decode: Callable[[bytes], Decoded]) -> Decoded:
    """Receives one message.

    Raises:
        FrameError: the message is larger than 4 MiB, or invalid.
        anyio.EndOfStream, anyio.IncompleteRead: the other end has closed.
    """
    length = int.from_bytes(await stream.receive_exactly(LENGTH_BYTES), "big")
    if length > MAX_BYTES:
        raise FrameError(f"a message of {length} bytes is larger than {MAX_BYTES}")
    try:
        return decode(await stream.receive_exactly(length))
    except msgspec.MsgspecError as error:
        raise FrameError(f"the message is not valid: {error}") from error
