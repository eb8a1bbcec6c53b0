"""Issuer of tokens for tests: keys, their documents, and valid or forged tokens."""

import base64
import time
from functools import cache
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KID: Final = "key-1"


def signing_key(name: str = KID, size: int = 2048) -> rsa.RSAPrivateKey:
    """Returns the private key of a name, with `size` bits; caches it, as making one takes long."""
    return _signing_key(name, size)


@cache
def _signing_key(name: str, size: int) -> rsa.RSAPrivateKey:
    del name
    return rsa.generate_private_key(65537, size)


def pem(key: rsa.RSAPrivateKey) -> str:
    """Returns a private key in PEM, as in files of service accounts."""
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return secret.decode()


def jwk(kid: str = KID, *, key: rsa.RSAPrivateKey | None = None, **fields: Any) -> dict[str, Any]:
    """Returns the public part of a key as JWK, with these fields."""
    numbers = (key or signing_key(kid)).public_key().public_numbers()
    return {
        "kty": "RSA",
        "use": "sig",
        "kid": kid,
        "n": _number(numbers.n),
        "e": _number(numbers.e),
        **fields,
    }


def token(
    claims: dict[str, Any],
    kid: str = KID,
    *,
    key: rsa.RSAPrivateKey | None = None,
    **header: Any,
) -> str:
    """Returns a token with these claims; by default issued now and valid for an hour."""
    now = int(time.time())  # noqa: TID251 - a token is of the machine's time
    timed = {"iat": now, "exp": now + 3600, **claims}
    head = {"alg": "RS256", "typ": "JWT", "kid": kid, **header}
    text = ".".join(encoded(msgspec.json.encode(part)) for part in (head, timed))
    signature = (key or signing_key(kid)).sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encoded(signature)}"


def encoded(data: bytes) -> str:
    """Returns base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8))


def decoded(text: str) -> bytes:
    """Returns the bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
