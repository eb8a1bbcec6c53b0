"""Client of the key server; implements `ports.KeyServer` and the requests of the memory."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self, TypeVar

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from skerry_relayer.envelope import SealKey
from skerry_relayer.errors import (
    DownError,
    ForbiddenError,
    MissingError,
    NoCertificateError,
    RefusedError,
    RelayerError,
)
from skerry_relayer.keys.framing import (
    AccountFound,
    AddDelegate,
    DelegateRow,
    DelegateRows,
    Delegates,
    FrameError,
    Hello,
    KeyFailure,
    Keys,
    OpenWaiting,
    OwnerKeys,
    Request,
    Resolve,
    Response,
    Revoked,
    RevokeDelegate,
    Rewrap,
    Rewrapped,
    Unseal,
    Unwrapped,
    Welcome,
    Wrapped,
    read_response,
    receive,
    send,
)
from skerry_relayer.keys.registry import QUEUE
from skerry_relayer.keys.server import short_path
from skerry_relayer.ports import Account, Delegate
from skerry_relayer.sessions import Certificate

SECONDS: Final = 5.0
"""Time limit of one answer in seconds."""
_MAX_IDLE: Final = 4
_ERRORS: Final[dict[int, type[RelayerError]]] = {
    error.status: error
    for error in (RefusedError, ForbiddenError, MissingError, NoCertificateError)
}
Answer = TypeVar("Answer", bound=Response)


@dataclass(frozen=True, slots=True)
class _Connection:
    stream: anyio.abc.SocketStream
    reader: BufferedByteReceiveStream


@dataclass(frozen=True, slots=True)
class OwnerKeySet:
    """Keys that are needed to store a text of an owner."""

    seal: SealKey
    tag_key: bytes
    """Key of the hashes by which equal texts of the owner are recognised."""


class KeyClient(anyio.AsyncContextManagerMixin):
    """Client of the key server at a socket. Use as `async with KeyClient(path) as keys`.

    A broken connection is replaced for the next request. All methods raise `DownError` when
    there is no answer within 5 s.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[_Connection] = []
        self._package_id = ""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        welcome = await self._ask(Hello(), Welcome)
        self._package_id = welcome.package_id
        try:
            yield self
        finally:
            for connection in self._idle:
                await anyio.aclose_forcefully(connection.stream)
            self._idle.clear()

    @property
    def package_id(self) -> str:
        """Returns the package id in certificates."""
        return self._package_id

    async def resolve(self, public_key: str, account_id: str | None) -> Account | None:
        """Returns the active account that has this delegate key now, or None."""
        match = await self._ask(Resolve(public_key, account_id), AccountFound)
        if not match.id:
            return None
        names = None if match.namespaces is None else frozenset(match.namespaces)
        return Account(match.id, match.owner, match.label, names)

    async def owner_keys(self, owner: str) -> OwnerKeySet:
        """Returns the keys for encrypting new texts of an owner.

        Raises:
            MissingError: there is no such owner.
        """
        keys = await self._ask(OwnerKeys(owner), Keys)
        return OwnerKeySet(SealKey(keys.public, keys.generation), keys.tag_key)

    async def queue_key(self) -> SealKey:
        """Returns the public key of waiting texts."""
        return (await self.owner_keys(QUEUE)).seal

    async def unseal(
        self, certificate: Certificate, owner: str, items: Sequence[Wrapped]
    ) -> list[bytes | None]:
        """Returns the keys of memories, None for each that may not be opened.

        Raises:
            NoCertificateError: the key server does not accept the certificate.
            ForbiddenError: the delegate has no right to this owner or a namespace.
        """
        request = Unseal(certificate.public_key, certificate.header, owner, list(items))
        return (await self._ask(request, Unwrapped)).keys

    async def open_waiting(self, owner: str, items: Sequence[Wrapped]) -> list[bytes | None]:
        """Returns the keys of waiting texts, None for each that may not be opened."""
        return (await self._ask(OpenWaiting(owner, list(items)), Unwrapped)).keys

    async def rewrap(self, owner: str, items: Sequence[Wrapped]) -> Rewrapped:
        """Returns keys of memories wrapped to the owner's newest key."""
        return await self._ask(Rewrap(owner, list(items)), Rewrapped)

    async def delegates(self, account_id: str) -> list[Delegate]:
        """Lists the delegate keys of an account, oldest first."""
        answer = await self._ask(Delegates(account_id), DelegateRows)
        return list(map(_delegate, answer.rows))

    async def add_delegate(
        self, account_id: str, public_key: str, label: str, namespaces: frozenset[str] | None
    ) -> Delegate:
        """Adds a delegate. Raises `RefusedError` for a known key and above the limit."""
        names = None if namespaces is None else sorted(namespaces)
        added = await self._ask(AddDelegate(account_id, public_key, label, names), DelegateRow)
        return _delegate(added)

    async def revoke_delegate(self, account_id: str, public_key: str) -> bool:
        """Removes a delegate; False when the account has no such key."""
        return (await self._ask(RevokeDelegate(account_id, public_key), Revoked)).there

    async def _ask(self, request: Request, kind: type[Answer]) -> Answer:
        try:
            with anyio.fail_after(SECONDS):
                answer = await self._exchange(request)
        except (OSError, TimeoutError, FrameError, anyio.BrokenResourceError) as error:
            raise DownError("The key server does not answer.") from error
        except (anyio.EndOfStream, anyio.IncompleteRead) as error:
            raise DownError("The key server closed the connection.") from error
        if isinstance(answer, KeyFailure):
            raise _ERRORS.get(answer.status, DownError)(answer.message)
        if not isinstance(answer, kind):
            raise DownError("The key server sent a response of another type.")
        return answer

    async def _exchange(self, request: Request) -> Response:
        """Sends over an idle or a new connection; replaces an idle connection that has died."""
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._on(connection, request)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                continue
        with short_path(self._path) as name:
            stream = await anyio.connect_unix(name)
        return await self._on(_Connection(stream, BufferedByteReceiveStream(stream)), request)

    async def _on(self, connection: _Connection, request: Request) -> Response:
        try:
            await send(connection.stream, request)
            answer = await receive(connection.reader, read_response)
        except (
            BaseException
        ):  # a late answer must not be mistaken for the answer to the next request
            await anyio.aclose_forcefully(connection.stream)
            raise
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            await anyio.aclose_forcefully(connection.stream)
        return answer


def _delegate(row: DelegateRow) -> Delegate:
    names = None if row.namespaces is None else frozenset(row.namespaces)
    created_at = datetime.fromtimestamp(row.created_at_ms / 1000, UTC)
    return Delegate(row.public_key, row.label, row.address, created_at, names)
