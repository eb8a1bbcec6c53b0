"""The program behind `tests.support.nio`: matrix-nio, a client of others, with its encryption.

It is run as a file of its own by the interpreter that has matrix-nio, and imports nothing of
Skerry. It reads one JSON object a line, and answers each with one.
"""

import asyncio
import json
import sys
from io import BytesIO
from typing import Any

from nio import AsyncClient, AsyncClientConfig, MegolmEvent, RoomMessage
from nio.crypto.attachments import decrypt_attachment

_ENCRYPTION = {
    "type": "m.room.encryption",
    "state_key": "",
    "content": {"algorithm": "m.megolm.v1.aes-sha2"},
}


class Program:
    """One user with one device."""

    def __init__(self, url: str, user: str, device: str, token: str, store: str) -> None:
        config = AsyncClientConfig(encryption_enabled=True, store_sync_tokens=True)
        self.client = AsyncClient(url, user, device_id=device, store_path=store, config=config)
        self.client.restore_login(user, device, token)
        self.client.add_event_callback(self.note, (RoomMessage, MegolmEvent))
        self.heard: list[dict[str, Any]] = []

    async def note(self, room: Any, event: Any) -> None:
        """Notes an event; a `MegolmEvent` is one that could not be decrypted."""
        content = event.source.get("content", {})
        self.heard.append(
            {
                "room": room.room_id,
                "id": event.event_id,
                "sender": event.sender,
                "decrypted": bool(getattr(event, "decrypted", False)),
                "unreadable": isinstance(event, MegolmEvent),
                "session": event.session_id,
                "content": content,
            }
        )

    async def do(self, asked: dict[str, Any]) -> Any:
        """Carries out one request."""
        return await getattr(self, f"do_{asked.pop('do')}")(**asked)

    async def do_create(self, invite: list[str], direct: bool = True) -> str:  # noqa: FBT001, FBT002 - of JSON
        made = await self.client.room_create(
            invite=invite, is_direct=direct, initial_state=[_ENCRYPTION]
        )
        return str(made.room_id)

    async def do_say(self, room: str, content: dict[str, Any]) -> str:
        sent = await self.client.room_send(
            room, "m.room.message", content, ignore_unverified_devices=True
        )
        return str(sent.event_id)

    async def do_upload(self, room: str, text: str, name: str) -> str:
        data = text.encode()
        uploaded, keys = await self.client.upload(
            lambda *_: BytesIO(data), "text/plain", name, encrypt=True, filesize=len(data)
        )
        content = {
            "msgtype": "m.file",
            "body": name,
            "filename": name,
            "info": {"mimetype": "text/plain", "size": len(data)},
            "file": {"url": uploaded.content_uri, "mimetype": "text/plain", **keys},
        }
        return await self.do_say(room, content)

    async def do_fetch(self, file: dict[str, Any]) -> str:
        fetched = await self.client.download(mxc=file["url"])
        opened = decrypt_attachment(
            fetched.body, file["key"]["k"], file["hashes"]["sha256"], file["iv"]
        )
        return str(opened.decode())

    async def do_heard(self) -> list[dict[str, Any]]:
        return self.heard

    async def do_fingerprint(self, user: str) -> list[str]:
        return [device.ed25519 for device in self.client.device_store.active_user_devices(user)]

    async def do_forget(self, room: str) -> None:
        """Begins a new session with the next message."""
        self.client.invalidate_outbound_session(room)

    async def run(self) -> None:
        """Serves until stdin ends."""
        await self.client.sync(timeout=0, full_state=True)
        if self.client.should_upload_keys:
            await self.client.keys_upload()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self.client.sync_forever(timeout=1000))
            say("ready")
            loop = asyncio.get_running_loop()
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                say(await self.do(json.loads(line)))
            following.cancel()


def say(answer: object) -> None:
    """Writes one answer."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


asyncio.run(Program(*sys.argv[1:]).run())
