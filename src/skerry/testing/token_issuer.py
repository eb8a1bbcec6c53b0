"""An issuer of tokens for tests: keys, their documents, and tokens that are right or forged."""

import base64
import time
from functools import cache
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KID: Final = "key-1"


def made_key(name: str = KID, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Returns a private key; the same for the same name, since making one takes long."""
    return _made(name, bits)


@cache
def _made(name: str, bits: int) -> rsa.RSAPrivateKey:
    del name
    return rsa.generate_private_key(65537, bits)


def pem(key: rsa.RSAPrivateKey) -> str:
    """Returns a private key as files of service accounts have it."""
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return secret.decode()


def jwk(kid: str = KID, *, key: rsa.RSAPrivateKey | None = None, **more: Any) -> dict[str, Any]:
    """Returns the public part of a key, as documents of keys have it."""
    numbers = (key or made_key(kid)).public_key().public_numbers()
    return {
        "kty": "RSA",
        "use": "sig",
        "kid": kid,
        "n": _number(numbers.n),
        "e": _number(numbers.e),
        **more,
    }


def token(
    claims: dict[str, Any],
    kid: str = KID,
    *,
    key: rsa.RSAPrivateKey | None = None,
    **header: Any,
) -> str:
    """Returns a token with these claims, of now where they have no times."""
    now = int(time.time())  # noqa: TID251 - a token is of the machine's time
    timed = {"iat": now, "exp": now + 3600, **claims}
    head = {"alg": "RS256", "typ": "JWT", "kid": kid, **header}
    text = ".".join(encoded(msgspec.json.encode(part)) for part in (head, timed))
    signature = (key or made_key(kid)).sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encoded(signature)}"


def encoded(data: bytes) -> str:
    """Returns base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8))


def decoded(text: str) -> bytes:
    """Returns the bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
