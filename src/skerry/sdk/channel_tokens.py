"""Verification of JWTs (RS256) with which platforms authenticate their requests."""

import base64
import re
from collections.abc import Collection
from typing import Any, Final

import anyio
import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from msgspec import Struct

from skerry.infra.clock import Clock
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import BusyError
from skerry.sdk.channel_host import AccountHttp, Outcome

__all__ = [
    "IssuerKeys",
    "KeysUnavailableError",
    "RequiredClaims",
    "Token",
    "TokenError",
    "private_key",
    "signed",
    "verified",
]
SKEW_MS: Final = 300_000
"""Allowed difference of clocks."""
FRESH_MS: Final = 24 * 3_600_000
"""Age after which keys are fetched again."""
USABLE_MS: Final = 72 * 3_600_000
"""Age up to which keys are used while newer ones cannot be fetched."""
AGAIN_MS: Final = 60_000
"""Least time between two fetches, also for unknown key ids."""
_MAX_TOKEN: Final = 16_384
_MAX_KEYS: Final = 64
_KEY_BITS: Final = range(2048, 8193)
_MAX_EXPONENT: Final = 1 << 32
_MAX_DOCUMENT: Final = 512 * 1024
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]+")
_OK: Final = 200


class TokenError(Exception):
    """A token is invalid; the message gives the reason, without parts of the token."""


class KeysUnavailableError(BusyError):
    """The keys of the platform cannot be fetched now, so that no token can be verified."""


class Token(Struct, frozen=True):
    """A verified token: signature, issuer, audience and time are valid."""

    claims: dict[str, Any]
    endorsements: frozenset[str]
    """Channel ids for which the key is valid; empty when the platform lists none."""


class RequiredClaims(Struct, frozen=True):
    """Claims that a token must have."""

    audience: str
    issuers: Collection[str] = ()
    """Accepted issuers; empty for the issuer in the metadata of the keys."""


class _Header(Struct, frozen=True):
    alg: str
    kid: str
    crit: Any = None


class _Jwk(Struct, frozen=True):
    kid: str = ""
    kty: str = ""
    use: str = "sig"
    alg: str = "RS256"
    n: str = ""
    e: str = ""
    endorsements: tuple[str, ...] = ()


class _Set(Struct, frozen=True):
    keys: tuple[_Jwk, ...]


class _Metadata(Struct, frozen=True):
    issuer: str
    jwks_uri: str


class _Key(Struct, frozen=True):
    public: rsa.RSAPublicKey
    endorsements: frozenset[str]


_headers = msgspec.json.Decoder(_Header)
_claims = msgspec.json.Decoder(dict[str, Any])
_sets = msgspec.json.Decoder(_Set)
_metadata = msgspec.json.Decoder(_Metadata)


class IssuerKeys:
    """The public keys of an issuer, fetched at the first use and cached for a day."""

    def __init__(self, http: AccountHttp, url: str, clock: Clock, *, is_metadata: bool) -> None:
        """Stores `url`: the address of a JWKS, or with `is_metadata` of OpenID metadata."""
        self._http = http
        self._url = url
        self._clock = clock
        self._is_metadata = is_metadata
        self._lock = anyio.Lock()
        self._keys: dict[str, _Key] = {}
        self._fetched_at: int | None = None
        self._tried_at: int | None = None
        self.issuer = ""
        """Issuer in the metadata; empty before they were fetched."""

    async def find(self, kid: str) -> _Key:
        """Returns the key with the id `kid`.

        Raises:
            TokenError: the issuer has no such key.
            KeysUnavailableError: the keys cannot be fetched.
        """
        if self._age(self._fetched_at) >= FRESH_MS or kid not in self._keys:
            async with self._lock:
                await self._refresh(kid)
        if self._age(self._fetched_at) >= USABLE_MS:
            raise KeysUnavailableError("The keys of the platform cannot be fetched.")
        if kid not in self._keys:
            raise TokenError("its key id is unknown")
        return self._keys[kid]

    async def _refresh(self, kid: str) -> None:
        is_fresh = self._age(self._fetched_at) < FRESH_MS
        if (is_fresh and kid in self._keys) or self._age(self._tried_at) < AGAIN_MS:
            return
        self._tried_at = self._clock.now_ms()
        url = self._url
        try:
            if self._is_metadata:
                metadata = _metadata.decode(await self._document(url))
                self.issuer, url = metadata.issuer, metadata.jwks_uri
            jwks = _sets.decode(await self._document(url)).keys[:_MAX_KEYS]
        except (msgspec.DecodeError, KeysUnavailableError) as error:
            if self._age(self._fetched_at) >= USABLE_MS:
                raise KeysUnavailableError(f"The keys of {url} cannot be read: {error}") from error
            return
        keys = {jwk.kid: key for jwk in jwks if jwk.kid and (key := _public(jwk)) is not None}
        self._keys, self._fetched_at = keys, self._clock.now_ms()

    async def _document(self, url: str) -> bytes:
        fetched = await self._http.fetch(url, max_bytes=_MAX_DOCUMENT, seconds=8.0)
        if fetched.outcome is not Outcome.ALLOW or fetched.status != _OK or fetched.truncated:
            raise KeysUnavailableError(f"{url} cannot be fetched: {fetched.reason}")
        return fetched.body

    def _age(self, then: int | None) -> int:
        """Returns the milliseconds since `then`; `USABLE_MS` for None and for a future time."""
        age = USABLE_MS if then is None else self._clock.now_ms() - then
        return age if age >= 0 else USABLE_MS


async def verified(
    authorization: str, keys: IssuerKeys, rules: RequiredClaims, clock: Clock
) -> Token:
    """Verifies the bearer token in the value of a header `Authorization`, and returns it.

    Raises:
        TokenError: there is no token, or it is invalid.
        KeysUnavailableError: the keys cannot be fetched.
    """
    scheme, _, text = authorization.partition(" ")
    text = text.strip()
    if scheme.lower() != "bearer" or not text:
        raise TokenError("there is no bearer token")
    if len(text) > _MAX_TOKEN or text.count(".") != 2:  # noqa: PLR2004 - three parts
        raise TokenError("it does not have three parts, or is too long")
    head, body, signature = text.split(".")
    try:
        header = _headers.decode(_decoded(head))
        claims = _claims.decode(_decoded(body))
    except UNREADABLE as error:
        raise TokenError("its header or claims are not valid JSON") from error
    if header.alg != "RS256" or header.crit is not None:
        raise TokenError("it is not signed with RS256")
    key = await keys.find(header.kid)
    try:
        key.public.verify(
            _decoded(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256()
        )
    except InvalidSignature as error:
        raise TokenError("its signature is wrong") from error
    _check(claims, rules.audience, rules.issuers or (keys.issuer,), clock.now_ms())
    return Token(claims, key.endorsements)


def _check(claims: dict[str, Any], audience: str, issuers: Collection[str], now: int) -> None:
    issuer, audiences = claims.get("iss"), claims.get("aud")
    if not isinstance(issuer, str) or not issuer or issuer not in issuers:
        raise TokenError("its issuer is not accepted")
    token_audiences = audiences if isinstance(audiences, list) else [audiences]
    if not audience or audience not in token_audiences:
        raise TokenError("its audience is not this account")
    expires = _time(claims, "exp")
    if expires is None or now >= expires + SKEW_MS:
        raise TokenError("it is expired")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and now < begins - SKEW_MS:
            raise TokenError(f"its {name} is in the future")


def _time(claims: dict[str, Any], name: str) -> float | None:
    """Returns a time in milliseconds since 1970; None where the claim is missing."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"its {name} is not a number")
    return value * 1000


def _decoded(text: str) -> bytes:
    if not _BASE64.fullmatch(text) or len(text) % 4 == 1:
        raise TokenError("a part is not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _public(jwk: _Jwk) -> _Key | None:
    """Returns the key; None for a key of another kind, and for one that is too short or long."""
    if (jwk.kty, jwk.use, jwk.alg) != ("RSA", "sig", "RS256"):
        return None
    try:
        modulus = int.from_bytes(_decoded(jwk.n.rstrip("=")))
        exponent = int.from_bytes(_decoded(jwk.e.rstrip("=")))
        if modulus.bit_length() not in _KEY_BITS or exponent > _MAX_EXPONENT:
            return None
        public = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    except (TokenError, ValueError):
        return None
    return _Key(public, frozenset(jwk.endorsements))


def signed(claims: dict[str, Any], key: rsa.RSAPrivateKey, kid: str) -> str:
    """Returns a token with these claims, signed with RS256."""
    parts = ({"alg": "RS256", "typ": "JWT", "kid": kid}, claims)
    text = ".".join(_encoded(msgspec.json.encode(part)) for part in parts)
    return f"{text}.{_encoded(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def private_key(pem: str) -> rsa.RSAPrivateKey:
    """Returns the RSA private key in a PEM text. Raises `ValueError` for any other text."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("the key is not an RSA key")  # noqa: TRY004 - a value of a file
    return key


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
