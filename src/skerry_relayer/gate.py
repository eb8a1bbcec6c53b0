"""Reads a request within limits, and verifies its signature, nonce and account."""

from dataclasses import dataclass
from typing import Final

import anyio
from starlette.requests import ClientDisconnect, Request

from .ports import Account, Caller
from .relayer import Relayer
from .sessions import Certificate, CertificateError
from .sessions import verify as verify_certificate
from .signatures import RejectedError, Signed

MAX_BODY: Final = 2 * 1024 * 1024
"""Maximum size of a signed request, in bytes."""

BODY_SECONDS: Final = 30.0
"""Time in which a whole body must arrive."""

LATE_SECONDS: Final = 0.1
"""Delay of refusals after the check of the signature, so that all take the same time."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A verified request."""

    caller: Caller
    body: bytes


def target_of(request: Request) -> str:
    """Returns path and query as they were sent."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope.get("query_string", b"")
    return (raw + b"?" + query if query else raw).decode("latin-1")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Returns the body.

    Raises:
        RejectedError: 400 for more than `max_bytes` bytes, 408 if the body does not arrive within
            `BODY_SECONDS` or the client disconnected.

    """
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:12]) > max_bytes:
        raise RejectedError(400)
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise RejectedError(400)
    except (TimeoutError, ClientDisconnect):
        raise RejectedError(408) from None
    return bytes(body)


async def admit(relayer: Relayer, request: Request) -> Admitted:
    """Returns the caller and body of a signed request. Raises `RejectedError` and `DownError`."""
    signed = Signed.read(request.headers.items(), relayer.clock())
    body = await read_body(request, MAX_BODY)
    try:
        signed.verify(request.method, target_of(request), body)
        account = await _account(relayer, signed)
    except RejectedError:
        await anyio.sleep(LATE_SECONDS)
        raise
    certificate = _certificate(request, signed, relayer)
    return Admitted(_caller(signed, account, certificate), body)


async def _account(relayer: Relayer, signed: Signed) -> Account:
    """Returns the account of the caller; refuses a nonce that was used before."""
    account = await relayer.keys.resolve(signed.public_key, signed.account_id)
    if account is None or not await relayer.nonces.take(
        signed.nonce, int(signed.timestamp), relayer.clock()
    ):
        raise RejectedError(late=True)
    return account


def _certificate(request: Request, signed: Signed, relayer: Relayer) -> Certificate | None:
    """Returns the verified certificate; None if it is missing or invalid."""
    header = request.headers.get("x-seal-session")
    if not header:
        return None
    try:
        return verify_certificate(
            header,
            public_key=signed.public_key,
            package_id=relayer.keys.package_id,
            now=relayer.clock(),
        )
    except CertificateError:
        return None


def _caller(signed: Signed, account: Account, certificate: Certificate | None) -> Caller:
    return Caller(
        public_key=signed.public_key,
        account_id=account.id,
        owner=account.owner,
        certificate=certificate,
        namespaces=account.namespaces,
        label=account.label,
    )
