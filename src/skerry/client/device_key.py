"""The key that identifies this machine to gateways on other machines."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from skerry.infra.atomic import write_atomic

KEY: Final = "device.pem"
"""File in the state directory; created by the first connection to another machine."""


def device(path: Path, introduction: Mapping[str, Any], challenge: Mapping[str, Any]) -> Any:
    """Returns the `device` of a `connect` with these parameters, signed for this challenge.

    Args:
        path: File of the key; created if missing.
        introduction: The other parameters of `connect`.
        challenge: Payload of `connect.challenge`.

    Raises:
        OSError: the key cannot be read or written.
        ValueError: the file contains no key.
        KeyError: the challenge lacks a value to sign.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - for a gateway on another machine alone
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - for a gateway on another machine alone
        Ed25519PrivateKey,
    )

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        write_atomic(
            path,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
    if not isinstance(key, Ed25519PrivateKey):
        message = f"{path} holds another kind of key than Ed25519"
        raise ValueError(message)  # noqa: TRY004 - what the file holds, not what the caller gave
    raw = key.public_key().public_bytes_raw()
    name, at, nonce = sha256(raw).hexdigest(), challenge["ts"], challenge["nonce"]
    client = introduction["client"]
    signed = (
        "v3",
        name,
        client["id"],
        client["mode"],
        introduction["role"],
        ",".join(introduction["scopes"]),
        str(at),
        introduction.get("auth", {}).get("token", ""),
        nonce,
        client["platform"],
        "",
    )
    return {
        "id": name,
        "publicKey": _text(raw),
        "signature": _text(key.sign("|".join(signed).encode())),
        "signedAt": at,
        "nonce": nonce,
    }


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
