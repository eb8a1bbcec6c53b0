"""A device: a key, and the signature that lets it in."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.wire import Frame, Wire, connect_params, dial

REMOTE = {"X-Forwarded-For": "203.0.113.9"}
"""A header that makes a connection one from elsewhere."""


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class Device:
    """An identity that can connect; `token` is what it was given last."""

    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    token: str = ""

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def id(self) -> str:
        return sha256(self.public).hexdigest()

    def introduce(self, challenge: Frame, *, version: int = 2, **changes: Any) -> Frame:
        """Returns signed parameters of `connect`; `changes` as for `connect_params`."""
        params = connect_params(**changes)
        auth = params.get("auth", {})
        signed_at = challenge["ts"]
        client = params["client"]
        said = [
            f"v{version}",
            self.id,
            client["id"],
            client["mode"],
            params["role"],
            ",".join(params.get("scopes", [])),
            str(signed_at),
            auth.get("token") or auth.get("deviceToken") or "",
            challenge["nonce"],
        ]
        if version == 3:
            said += [client["platform"].lower(), client.get("deviceFamily", "").lower()]
        params["device"] = {
            "id": self.id,
            "publicKey": text(self.public),
            "signature": text(self.private.sign("|".join(said).encode())),
            "signedAt": signed_at,
            "nonce": challenge["nonce"],
        }
        return params

    async def connect(self, wire: Wire, **changes: Any) -> Frame:
        """Sends a signed `connect`; returns the response and keeps the token it brings."""
        params = self.introduce(wire.frames[0]["payload"], **changes)
        await wire.send({"type": "req", "id": "connect", "method": "connect", "params": params})
        answer = await wire.response("connect")
        if answer["ok"]:
            wire.hello = answer["payload"]
            self.token = wire.hello["auth"]["deviceToken"]
        return answer

    @asynccontextmanager
    async def connected(
        self, url: str, headers: dict[str, str] | None = None, **changes: Any
    ) -> AsyncIterator[Wire]:
        """Opens a connection that is let in."""
        async with dial(url, additional_headers=headers or {}) as wire:
            answer = await self.connect(wire, **changes)
            assert answer["ok"], answer
            yield wire

    async def refused(
        self, url: str, headers: dict[str, str] | None = None, **changes: Any
    ) -> Frame:
        """Opens a connection that is not let in; returns the error."""
        async with dial(url, additional_headers=headers or {}) as wire:
            answer = await self.connect(wire, **changes)
            assert not answer["ok"], answer
            assert (await wire.closed())[0] == 1008
            error: Frame = answer["error"]
            return error
