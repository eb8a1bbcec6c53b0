"""A real homeserver: Synapse on a port of this machine, in an environment of its own."""

import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import anyio
import httpx2

from skerry.testing.ports import reserved
from tests.support.mocks import program

READY_SECONDS: Final = 240
_CLIENT: Final = "/_matrix/client/v3"
_MORE: Final = """
enable_registration: true
enable_registration_without_verification: true
trusted_key_servers: []
suppress_key_server_warning: true
rc_message: {per_second: 1000, burst_count: 10000}
rc_room_creation: {per_second: 1000, burst_count: 10000}
rc_registration: {per_second: 1000, burst_count: 10000}
rc_joins:
  local: {per_second: 1000, burst_count: 10000}
rc_invites:
  per_room: {per_second: 1000, burst_count: 10000}
  per_user: {per_second: 1000, burst_count: 10000}
  per_issuer: {per_second: 1000, burst_count: 10000}
rc_login:
  address: {per_second: 1000, burst_count: 10000}
  account: {per_second: 1000, burst_count: 10000}
"""


@contextmanager
def synapse(folder: Path) -> Iterator[str]:
    """Runs a homeserver whose data is in `folder`; gives its address."""
    python = program("SKERRY_SYNAPSE_PYTHON", ".venv-synapse/bin/python")
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "homeserver.yaml"
    run = [python, "-m", "synapse.app.homeserver", "--config-path", str(config)]
    names = ("--server-name", "localhost", "--data-directory", str(folder))
    subprocess.run(
        [*run, "--generate-config", "--report-stats=no", *names],
        check=True,
        cwd=folder,
        capture_output=True,
        timeout=READY_SECONDS,
    )
    with reserved() as port, (folder / "log").open("wb") as log:
        text = config.read_text("utf-8").replace("port: 8008", f"port: {port}")
        text = re.sub(r"bind_addresses: \[.*\]", "bind_addresses: ['127.0.0.1']", text)
        config.write_text(text + _MORE, "utf-8")
        process = subprocess.Popen(run, cwd=folder, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(process, url)
            yield url
        finally:
            process.kill()
            process.wait(60)


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str) -> None:
    for _ in range(READY_SECONDS * 4):
        if process.poll() is not None:
            raise AssertionError(f"the homeserver ended with {process.returncode}")
        try:
            if httpx2.get(f"{url}/health", timeout=60).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        anyio.run(anyio.sleep, 0.25)
    raise AssertionError("the homeserver does not answer")


class Person:
    """A user of the homeserver, who writes and reads."""

    def __init__(self, url: str, name: str = "") -> None:
        self.url = url
        self._count = 0
        self.token = ""
        self._password = secrets.token_hex(8)
        answer = self._ask(
            "POST",
            "/register",
            {
                "username": f"{name or 'user'}-{secrets.token_hex(4)}",
                "password": self._password,
                "auth": {"type": "m.login.dummy"},
            },
        )
        self.id: str = answer["user_id"]
        self.token = str(answer["access_token"])
        self.device = str(answer["device_id"])

    def another_device(self) -> "Person":
        """Returns the same person, logged in once more."""
        other = copy(self)
        who = {"type": "m.id.user", "user": self.id}
        login = {"type": "m.login.password", "identifier": who, "password": self._password}
        answer = self._ask("POST", "/login", login)
        other.token, other.device = str(answer["access_token"]), str(answer["device_id"])
        return other

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def _ask(self, method: str, where: str, content: Any = None) -> Any:
        address = self.url + _CLIENT + where
        answer = httpx2.request(method, address, json=content, headers=self._headers, timeout=60)
        assert answer.status_code == 200, (where, answer.text)
        return answer.json()

    def direct(self, other: "Person") -> str:
        """Invites another person to a direct chat; returns the room."""
        room = {"invite": [other.id], "is_direct": True, "preset": "trusted_private_chat"}
        return str(self._ask("POST", "/createRoom", room)["room_id"])

    def group(self, *others: "Person") -> str:
        """Makes a room with others, who join it."""
        room = {"invite": [other.id for other in others], "name": "The crew"}
        made = str(self._ask("POST", "/createRoom", room)["room_id"])
        for other in others:
            other.join(made)
        return made

    def join(self, room: str) -> None:
        """Joins a room."""
        self._ask("POST", f"/join/{quote(room, safe='')}", {})

    def leave(self, room: str) -> None:
        """Leaves a room."""
        self._ask("POST", f"/rooms/{quote(room, safe='')}/leave", {})

    def say(self, room: str, text: str, **more: Any) -> str:
        """Writes a message; returns the id of its event."""
        content = {"msgtype": "m.text", "body": text, **more}
        return self.send(room, "m.room.message", content)

    def send(self, room: str, kind: str, content: Any) -> str:
        """Sends an event; returns its id."""
        self._count += 1
        where = f"/rooms/{quote(room, safe='')}/send/{kind}/{self._count}"
        return str(self._ask("PUT", where, content)["event_id"])

    def keys(self) -> Any:
        """Returns the device keys of the person, and their signatures."""
        return self._ask("POST", "/keys/query", {"device_keys": {self.id: []}})

    def upload(self, data: bytes, mime: str) -> str:
        """Uploads a file; returns its address."""
        answer = httpx2.post(
            f"{self.url}/_matrix/media/v3/upload",
            content=data,
            headers=self._headers | {"content-type": mime},
            timeout=60,
        )
        return str(answer.json()["content_uri"])

    def events(self, room: str, sender: str = "") -> list[dict[str, Any]]:
        """Returns the events of a room, oldest first; those of a sender if one is given."""
        rows: list[dict[str, Any]] = []
        where, end = f"/rooms/{quote(room, safe='')}/messages?dir=b&limit=500", ""
        while True:
            answer = self._ask("GET", where + (f"&from={end}" if end else ""))
            rows += answer["chunk"]
            end = answer.get("end", "")
            if not end or not answer["chunk"]:
                break
        return [row for row in reversed(rows) if sender in {"", row["sender"]}]

    def typing(self, room: str) -> list[str]:
        """Returns the people who are typing in a room now."""
        joined = self._ask("GET", "/sync?timeout=0")["rooms"].get("join", {})
        events = joined.get(room, {}).get("ephemeral", {}).get("events", [])
        return [
            user
            for event in events
            if event["type"] == "m.typing"
            for user in event["content"]["user_ids"]
        ]

    def read(self, room: str, sender: "Person") -> list[str]:
        """Returns the texts of a sender's messages in a room, oldest first."""
        return [
            row["content"]["body"]
            for row in self.events(room, sender.id)
            if row["type"] == "m.room.message"
            and row["content"].get("m.relates_to", {}).get("rel_type") != "m.replace"
        ]
