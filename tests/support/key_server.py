"""A small homeserver of ours for keys of devices, and devices of others that speak by vodozemac."""

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from vodozemac import (
    Account,
    AnyOlmMessage,
    Curve25519PublicKey,
    GroupSession,
    InboundGroupSession,
    MegolmMessage,
    Session,
    SessionKey,
)

from skerry.channels.matrix.api import MatrixApi
from skerry.channels.matrix.encryption.machine import CryptoMachine
from skerry.channels.matrix.encryption.signing import is_signed, signed
from skerry.channels.matrix.wire import RoomEvent, Synced
from skerry.infra.clock import Clock
from skerry.sdk.channel_host import Vault
from tests.support.gateway import serving

BOT: Final = "@bot:local"
DEVICE: Final = "BOTDEV"
ROOM: Final = "!room:local"
_ALGORITHMS: Final = ["m.olm.v1.curve25519-aes-sha2", "m.megolm.v1.aes-sha2"]


class KeyServer:
    """Keys that were uploaded, and messages between devices that were sent."""

    def __init__(self) -> None:
        self.devices: dict[str, dict[str, Any]] = {}
        self.one_time: dict[tuple[str, str], dict[str, Any]] = {}
        self.fallback: dict[tuple[str, str], dict[str, Any]] = {}
        self.uploads: list[dict[str, Any]] = []
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.queries = 0
        self.failing: set[str] = set()
        """Last parts of addresses that are answered with 500."""
        self.url = ""
        self.user, self.device = BOT, DEVICE
        self._apis: list[MatrixApi] = []

    async def answer(self, request: Request) -> JSONResponse:
        """Answers a request as the specification has it."""
        name = request.url.path.split("/v3/")[1]
        if any(part in name for part in self.failing):
            return JSONResponse({"errcode": "M_UNKNOWN", "error": "it fails"}, 500)
        body = json.loads(await request.body())
        method = getattr(self, "on_" + "_".join(name.split("/")[:2]), None)
        if method is None:
            method = self.on_send
        return JSONResponse(method(body))

    def on_keys_upload(self, body: dict[str, Any]) -> Any:
        self.uploads.append(body)
        if "device_keys" in body:
            self.devices.setdefault(self.user, {})[self.device] = body["device_keys"]
        kept = self.one_time.setdefault((self.user, self.device), {})
        for name, key in body.get("one_time_keys", {}).items():
            assert name not in kept, "a key was uploaded twice"
            kept[name] = key
        self.fallback.setdefault((self.user, self.device), {}).update(body.get("fallback_keys", {}))
        return {"one_time_key_counts": {"signed_curve25519": len(kept)}}

    def on_keys_query(self, body: dict[str, Any]) -> Any:
        self.queries += 1
        return {"device_keys": {user: self.devices.get(user, {}) for user in body["device_keys"]}}

    def on_keys_claim(self, body: dict[str, Any]) -> Any:
        fields: dict[str, Any] = {}
        for user, devices in body["one_time_keys"].items():
            for device in devices:
                keys = self.one_time.get((user, device), {})
                if keys:
                    name = next(iter(keys))
                    fields.setdefault(user, {})[device] = {name: keys.pop(name)}
        return {"one_time_keys": fields}

    def on_keys_device_signing(self, body: dict[str, Any]) -> Any:
        assert set(body) == {"master_key", "self_signing_key", "user_signing_key"}
        return {}

    def on_keys_signatures(self, body: dict[str, Any]) -> Any:
        assert set(body) == {self.user}
        return {}

    def on_send(self, body: dict[str, Any]) -> Any:
        for user, devices in body["messages"].items():
            self.sent += [(user, device, content) for device, content in devices.items()]
        return {}

    def machine(self, vault: Vault, clock: Clock) -> CryptoMachine:
        """Returns the encryption of the bot, as a new process has it."""
        self._apis.append(MatrixApi(self.url, "token"))
        return CryptoMachine(vault, self._apis[-1], clock)

    async def close(self) -> None:
        """Closes the connections."""
        for api in self._apis:
            await api.http.close()


@asynccontextmanager
async def key_server() -> AsyncGenerator[KeyServer]:
    """Serves on loopback."""
    server = KeyServer()
    app = Starlette(routes=[Route("/{rest:path}", server.answer, methods=["POST", "PUT"])])
    async with serving(app) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server
        await server.close()


class Device:
    """A device of somebody else, by vodozemac alone."""

    def __init__(self, server: KeyServer, user: str = "@alice:local", name: str = "PHONE") -> None:
        self.server, self.user, self.name = server, user, name
        self.account = Account()
        self.curve = self.account.curve25519_key.to_base64()
        self.ed = self.account.ed25519_key.to_base64()
        self.group = GroupSession()
        self.session: Session | None = None
        self.inbound: dict[str, InboundGroupSession] = {}
        self.publish()

    def publish(self, keys: int = 5) -> None:
        """Uploads the keys of the device, and some to begin sessions with."""
        content = {
            "user_id": self.user,
            "device_id": self.name,
            "algorithms": _ALGORITHMS,
            "keys": {f"curve25519:{self.name}": self.curve, f"ed25519:{self.name}": self.ed},
        }
        mine = self.server.devices.setdefault(self.user, {})
        mine[self.name] = signed(content, self.account, self.user, self.name)
        self.account.generate_one_time_keys(keys)
        self.server.one_time[self.user, self.name] = {
            f"signed_curve25519:{name}": signed(
                {"key": key.to_base64()}, self.account, self.user, self.name
            )
            for name, key in self.account.one_time_keys.items()
        }
        self.account.mark_keys_as_published()

    def _session(self) -> Session:
        if self.session is None:
            bot = self.server.devices[BOT][DEVICE]
            curve, ed = bot["keys"][f"curve25519:{DEVICE}"], bot["keys"][f"ed25519:{DEVICE}"]
            keys = self.server.one_time[BOT, DEVICE] or self.server.fallback[BOT, DEVICE]
            key = keys.pop(next(iter(keys)))
            assert is_signed(bot, BOT, DEVICE, ed)
            assert is_signed(key, BOT, DEVICE, ed)
            self.session = self.account.create_outbound_session(
                Curve25519PublicKey.from_base64(curve), Curve25519PublicKey.from_base64(key["key"])
            )
        return self.session

    def sealed(self, kind: str, content: dict[str, Any], /, **changed: Any) -> dict[str, Any]:
        """Returns a message to the bot's device; `changed` replaces what is in it."""
        bot = self.server.devices[BOT][DEVICE]["keys"]
        payload = {
            "type": kind,
            "sender": self.user,
            "recipient": BOT,
            "keys": {"ed25519": self.ed},
            "recipient_keys": {"ed25519": bot[f"ed25519:{DEVICE}"]},
            "content": content,
        } | changed
        return self.sealed_bytes(json.dumps(payload).encode())

    def sealed_bytes(self, plaintext: bytes) -> dict[str, Any]:
        """Returns a message to the bot's device with whatever a hostile client encrypts."""
        bot = self.server.devices[BOT][DEVICE]["keys"]
        number, body = self._session().encrypt(plaintext).to_parts()
        text = base64.b64encode(body).decode().rstrip("=")
        return {
            "type": "m.room.encrypted",
            "sender": self.user,
            "content": {
                "algorithm": _ALGORITHMS[0],
                "sender_key": self.curve,
                "ciphertext": {bot[f"curve25519:{DEVICE}"]: {"type": number, "body": text}},
            },
        }

    def room_key(self, room: str = ROOM, **changed: Any) -> dict[str, Any]:
        """Returns the message that brings the key of the device's session."""
        content = {
            "algorithm": _ALGORITHMS[1],
            "room_id": room,
            "session_id": self.group.session_id,
            "session_key": self.group.session_key.to_base64(),
        }
        return self.sealed("m.room_key", content | changed)

    def say(self, text: str, event_id: str, room: str = ROOM, **changed: Any) -> RoomEvent:
        """Returns an encrypted event of a room."""
        content = {"msgtype": "m.text", "body": text}
        inside = {"type": "m.room.message", "room_id": room, "content": content}
        return self.say_bytes(json.dumps(inside).encode(), event_id, **changed)

    def say_bytes(self, plaintext: bytes, event_id: str, **changed: Any) -> RoomEvent:
        """Returns an encrypted event of a room with whatever a hostile client encrypts."""
        ciphertext = self.group.encrypt(plaintext).to_base64()
        sealed = {
            "algorithm": _ALGORITHMS[1],
            "session_id": self.group.session_id,
            "ciphertext": ciphertext,
        }
        return RoomEvent("m.room.encrypted", self.user, event_id, 5, sealed | changed)

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns what arrived for the device: type and content; keeps room keys."""
        mine = [row[2] for row in self.server.sent if row[:2] == (self.user, self.name)]
        self.server.sent = [row for row in self.server.sent if row[:2] != (self.user, self.name)]
        return [self._opened(content) for content in mine]

    def _opened(self, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        part = content["ciphertext"][self.curve]
        body = base64.b64decode(part["body"] + "=" * (-len(part["body"]) % 4))
        message = AnyOlmMessage.from_parts(part["type"], body)
        pre_key = message.to_pre_key()
        if pre_key is not None and not (self.session and self.session.session_matches(pre_key)):
            sender = Curve25519PublicKey.from_base64(content["sender_key"])
            self.session, plaintext = self.account.create_inbound_session(sender, pre_key)
        else:
            plaintext = self._session().decrypt(message)
        payload = json.loads(plaintext)
        assert payload["recipient_keys"] == {"ed25519": self.ed}
        if payload["type"] == "m.room_key":
            key = payload["content"]
            session = InboundGroupSession(SessionKey(key["session_key"]))
            self.inbound[key["session_id"]] = session
        return payload["type"], payload["content"]

    def read(self, sealed: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Returns the content of an encrypted event, and its place in its session."""
        message = MegolmMessage.from_base64(sealed["ciphertext"])
        decrypted = self.inbound[sealed["session_id"]].decrypt(message)
        inside = json.loads(bytes(decrypted.plaintext))
        return inside["content"], decrypted.message_index


def sync(*events: dict[str, Any], count: int | None = 50, **more: Any) -> Synced:
    """Returns the answer of a sync with messages between devices."""
    answer = {"next_batch": "s1", "to_device": {"events": events}, **more}
    if count is not None:
        answer["device_one_time_keys_count"] = {"signed_curve25519": count}
        answer.setdefault("device_unused_fallback_key_types", ["signed_curve25519"])
    return msgspec.json.decode(msgspec.json.encode(answer), type=Synced)
