"""Makes and verifies Matrix signatures of JSON objects."""

from collections.abc import Mapping
from typing import Any

import msgspec
from vodozemac import Account, Ed25519PublicKey, Ed25519Signature


def canonical(content: Mapping[str, Any]) -> bytes:
    """Returns the canonical bytes of an object, which are signed."""
    signed = {key: part for key, part in content.items() if key not in {"signatures", "unsigned"}}
    return msgspec.json.encode(signed, order="deterministic")


def signed(content: Mapping[str, Any], account: Account, user: str, device: str) -> dict[str, Any]:
    """Returns the object with the signature of a device."""
    signature = account.sign(canonical(content)).to_base64()
    return {**content, "signatures": {user: {f"ed25519:{device}": signature}}}


def is_signed(content: Mapping[str, Any], user: str, device: str, key: str) -> bool:
    """Returns whether the device with this key signed the object."""
    try:
        text = content["signatures"][user][f"ed25519:{device}"]
        signature = Ed25519Signature.from_base64(text)
        Ed25519PublicKey.from_base64(key).verify_signature(canonical(content), signature)
    except (KeyError, TypeError, ValueError):
        return False
    return True
