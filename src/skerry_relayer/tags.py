"""Keyed hashes of texts, which can be compared only with the owner's key."""

import hashlib
import hmac
import unicodedata


def tag_of(key: bytes, namespace: str, text: str) -> str:
    """Returns the tag of a text; case, spaces and a final full stop do not change it."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = " ".join(folded.split()).rstrip(".!").rstrip() or folded
    return _keyed(key, b"tag", namespace, plain)


def fingerprint_of(key: bytes, namespace: str, text: str) -> str:
    """Returns the fingerprint of a request, which differs for any other text."""
    return _keyed(key, b"request", namespace, text)


def _keyed(key: bytes, use: bytes, namespace: str, text: str) -> str:
    parts = (use, namespace.encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogatepass"))
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(key, message, hashlib.sha256).hexdigest()
