"""Proofs of a sender: a token in a header, or a signature with a time (pure)."""

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
    """Returns the token that a post sends in a header; empty for none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return next((headers[name].strip() for name in TOKEN_HEADERS if name in headers), "")


def is_token(given: str, expected: str) -> bool:
    """Returns whether a token is the expected one, in a time that tells nothing of it."""
    if not given or not expected:
        return False
    return hmac.compare_digest(sha256(given.encode()).digest(), sha256(expected.encode()).digest())


def claims(signature: SignatureConfig, headers: Mapping[str, str], now: float) -> str:
    """Returns why the headers cannot prove a post; empty where the body is to be looked at."""
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
    """Returns the bytes of the signature, whatever the case or prefix that it was sent in."""
    match = _HEX.fullmatch(headers.get(signature.header.lower(), "").strip())
    return bytes.fromhex(match[1]) if match else b""


def is_signed(signature: SignatureConfig, headers: Mapping[str, str], body: bytes) -> bool:
    """Returns whether the signature is that of the body, and of the time where one is signed."""
    signed = body
    if signature.timestamp_header is not None:
        time = headers.get(signature.timestamp_header.lower(), "").strip()
        signed = time.encode() + b"." + body
    expected = hmac.new(signature.secret.get_secret_value().encode(), signed, sha256).digest()
    return hmac.compare_digest(digest_of(signature, headers), expected)


def weakness(token: str) -> str:
    """Returns why a token can be guessed; empty where it cannot."""
    if len(token) < LEAST:
        return f"it has {len(token)} characters; use at least {LEAST}"
    if len(set(token)) < _DIFFERENT:
        return f"it has only {len(set(token))} different characters"
    return ""


LEAST: Final = 24
"""Characters of a token that cannot be guessed."""
_DIFFERENT: Final = 10
