"""Decides on requests to the key server: use of accounts, and decryption of texts."""

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from skerry_relayer.envelope import EnvelopeError, unwrap, wrap
from skerry_relayer.errors import ForbiddenError, MissingError, NoCertificateError, RelayerError
from skerry_relayer.keys.framing import (
    MAX_ITEMS,
    AccountFound,
    AddDelegate,
    DelegateRow,
    DelegateRows,
    Delegates,
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
)
from skerry_relayer.keys.registry import QUEUE, Registry, now_ms
from skerry_relayer.ports import Delegate
from skerry_relayer.sessions import CertificateError, verify

_MAX_CERTIFICATES: Final = 1000
"""Number of cached verified certificates, so that each signature is verified once."""


class Judge:
    """Decides on each request by the registry only.

    Statements of the relayer about an account, an owner or a namespace are compared with the
    registry and with the binding of each wrapped key: a false statement decrypts nothing.
    """

    def __init__(self, registry: Registry, *, clock: Callable[[], int] = now_ms) -> None:
        self._registry = registry
        self._clock = clock
        self._package_id = registry.package_id
        self._verified: dict[tuple[str, str], float] = {}
        """Expiry of verified certificates as Unix seconds, by public key and certificate."""

    def answer(self, request: Request) -> Response:
        """Returns the response; a refusal is a `KeyFailure`."""
        try:
            return self._answer(request)
        except RelayerError as error:
            return KeyFailure(error.status, str(error))

    def _answer(self, request: Request) -> Response:  # noqa: C901, PLR0911, PLR0912 - one row a message
        match request:
            case Hello():
                return Welcome(self._package_id)
            case Resolve():
                return self._resolve(request)
            case OwnerKeys(owner):
                return self._owner_keys(owner)
            case Unseal():
                return Unwrapped(self._unseal(request))
            case OpenWaiting():
                return Unwrapped(self._open_waiting(request))
            case Rewrap():
                return self._rewrap(request)
            case Delegates(account_id):
                return DelegateRows(list(map(_row, self._registry.delegates(account_id))))
            case AddDelegate(account_id, public_key, label, namespaces):
                names = None if namespaces is None else frozenset(namespaces)
                added = self._registry.add_delegate(account_id, public_key, label, names)
                return _row(added)
            case RevokeDelegate(account_id, public_key):
                return Revoked(self._registry.revoke(account_id, public_key))
            case _:
                assert_never(request)

    def _resolve(self, request: Resolve) -> AccountFound:
        account = self._registry.resolve(request.public_key, request.account_id)
        if account is None:
            return AccountFound()
        names = None if account.namespaces is None else sorted(account.namespaces)
        return AccountFound(account.id, account.owner, account.label, names)

    def _owner_keys(self, owner: str) -> Keys:
        key = self._registry.seal_key(owner)
        if key is None:
            raise MissingError(f"There is no owner {owner[:80]}.")
        return Keys(key.public, key.generation, self._registry.tag_key(owner) or b"")

    def _unseal(self, request: Unseal) -> list[bytes | None]:
        _check_count(request.items)
        self._check_certificate(request.public_key, request.certificate)
        private = _PrivateKeys(self._registry, request.owner)
        for account_id in {item.account for item in request.items}:
            account = self._registry.resolve(request.public_key, account_id)
            if account is None or account.owner != request.owner:
                raise ForbiddenError("The key has no right to this owner's memories.")
            allowed = account.namespaces
            if allowed is not None and any(
                item.namespace not in allowed
                for item in request.items
                if item.account == account_id
            ):
                raise ForbiddenError("The key has no right to this namespace.")
        return [_unwrapped(item, private, request.owner, "memory") for item in request.items]

    def _open_waiting(self, request: OpenWaiting) -> list[bytes | None]:
        _check_count(request.items)
        private = _PrivateKeys(self._registry, QUEUE)
        return [_unwrapped(item, private, request.owner, "queue") for item in request.items]

    def _rewrap(self, request: Rewrap) -> Rewrapped:
        _check_count(request.items)
        newest = self._registry.seal_key(request.owner)
        if newest is None:
            raise MissingError(f"There is no owner {request.owner[:80]}.")
        private = _PrivateKeys(self._registry, request.owner)
        wrapped: list[bytes | None] = []
        for item in request.items:
            key = _unwrapped(item, private, request.owner, "memory")
            binding = item.binding(request.owner)
            wrapped.append(None if key is None else wrap(key, newest.public, binding))
        return Rewrapped(newest.generation, wrapped)

    def _check_certificate(self, public_key: str, certificate: str) -> None:
        """Raises `NoCertificateError` unless the key signed the certificate and it is valid now."""
        now = self._clock() / 1000
        valid_until = self._verified.get((public_key, certificate))
        if valid_until is not None and now < valid_until:
            return
        try:
            verified = verify(
                certificate, public_key=public_key, package_id=self._package_id, now=now
            )
        except (CertificateError, ValueError) as error:
            raise NoCertificateError(f"The certificate is not valid: {error}.") from error
        if len(self._verified) >= _MAX_CERTIFICATES:
            self._verified.clear()
        self._verified[public_key, certificate] = verified.expires_at


class _PrivateKeys:
    """Private keys of one owner, each read once for a request."""

    def __init__(self, registry: Registry, owner: str) -> None:
        self._registry = registry
        self._owner = owner
        self._keys: dict[int, X25519PrivateKey | None] = {}

    def get(self, generation: int) -> X25519PrivateKey | None:
        if generation not in self._keys:
            self._keys[generation] = self._registry.private_key(self._owner, generation)
        return self._keys[generation]


def _unwrapped(item: Wrapped, private: _PrivateKeys, owner: str, purpose: str) -> bytes | None:
    key = private.get(item.generation)
    if key is None:
        return None
    try:
        return unwrap(item.wrapped, key, item.binding(owner, purpose))
    except EnvelopeError:
        return None


def _check_count(items: Sequence[Wrapped]) -> None:
    if len(items) > MAX_ITEMS:
        raise ForbiddenError(f"{len(items)} keys in one request are more than {MAX_ITEMS}.")


def _row(delegate: Delegate) -> DelegateRow:
    names = None if delegate.namespaces is None else sorted(delegate.namespaces)
    created_at_ms = int(delegate.created_at.timestamp() * 1000)
    return DelegateRow(delegate.public_key, delegate.label, delegate.address, created_at_ms, names)
