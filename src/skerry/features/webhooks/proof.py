"""Proofs of a sender: a token in a header, or a signature with a timestamp (pure)."""

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from skerry.config.webhooks import SignatureConfig

TOKEN_HEADERS: Final = ("x-skerry-token", "x-openclaw-token")
_HEX: Final = re.compile(r"(?:sha256=)?([0-9a-fA-F]{64})")
_SECONDS: Final = re.compile(r"\d{1,12}")


def token_of(headers: Mapping[str, str]) -> str:
    """Returns the token in the headers of a post; empty without one."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return next((headers[name].strip() for name in TOKEN_HEADERS if name in headers), "")


def is_token(token: str, expected: str) -> bool:
    """Compares a token with the expected one in constant time."""
    if not token or not expected:
        return False
    return hmac.compare_digest(sha256(token.encode()).digest(), sha256(expected.encode()).digest())


def claims(signature: SignatureConfig, headers: Mapping[str, str], now: float) -> str:
    """Returns the reason why the headers prove nothing, or an empty string."""
    if _HEX.fullmatch(headers.get(signature.header.lower(), "").strip()) is None:
        return f"the header {signature.header} has no signature"
    if signature.timestamp_header is None:
        return ""
    text = headers.get(signature.timestamp_header.lower(), "").strip()
    if _SECONDS.fullmatch(text) is None:
        return f"the header {signature.timestamp_header} has no time in seconds"
    if abs(int(text) - now) > signature.tolerance_seconds:
        return f"the time in {signature.timestamp_header} is not the present"
    return ""


def digest_of(signature: SignatureConfig, headers: Mapping[str, str]) -> bytes:
    """Returns the bytes of the signature, independent of its prefix and letter case."""
    match = _HEX.fullmatch(headers.get(signature.header.lower(), "").strip())
    return bytes.fromhex(match[1]) if match else b""


def is_signed(signature: SignatureConfig, headers: Mapping[str, str], body: bytes) -> bool:
    """Returns true when the signature matches the body, and the timestamp if that is signed."""
    signed = body
    if signature.timestamp_header is not None:
        time = headers.get(signature.timestamp_header.lower(), "").strip()
        signed = time.encode() + b"." + body
    expected = hmac.new(signature.secret.get_secret_value().encode(), signed, sha256).digest()
    return hmac.compare_digest(digest_of(signature, headers), expected)


def weakness(token: str) -> str:
    """Returns the reason why a token can be guessed, or an empty string."""
    if len(token) < MIN_TOKEN_CHARS:
        return f"it has {len(token)} characters; use at least {MIN_TOKEN_CHARS}"
    if len(set(token)) < _MIN_DIFFERENT_CHARS:
        return f"it has only {len(set(token))} different characters"
    return ""


MIN_TOKEN_CHARS: Final = 24
"""Minimum length of a token, in characters."""
_MIN_DIFFERENT_CHARS: Final = 10
