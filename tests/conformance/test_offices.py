"""What we send to Google Chat and MS Teams, and our fakes of both, judged by their libraries."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

from skerry.channels.msteams import wire
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Peer, ReplyTo
from skerry.model.outbound import PLAIN, Additions, Button, OutboundPart
from skerry.sdk.channel_host import MemoryCursor
from skerry.sdk.channel_tokens import signed
from skerry.testing.google_server import GoogleServer
from skerry.testing.teams_server import APP, ISSUER, TeamsServer
from skerry.testing.token_issuer import jwk, signing_key, token
from tests.contract.offices import GoogleChat, PostedTeams, Teams
from tests.support.mocks import program

pytestmark = pytest.mark.full("google-apps-chat, google-auth, microsoft-agents-activity")

JUDGE = Path(__file__).parent / "offices" / "judge.py"
ALLOW = Additions(buttons=((Button("Allow", "/approve 1 allow-once"),),))


def part(to: Peer, text: str, number: int, more: Additions = PLAIN, **at: Any) -> OutboundPart:
    reply = ReplyTo(wire.CHANNEL, AccountId("default"), to, "1", **at)
    return OutboundPart(1, RunId("r"), 0, number, reply, text, more)


async def of_google(home: Path) -> tuple[list[Any], list[Any]]:
    """Returns bodies that the adapter sends, and events of our server."""
    async with GoogleServer() as server:
        town = GoogleChat(server, home)
        adapter, thread = town.adapter, f"{town.team.id}/threads/T"
        await adapter.send(part(town.alice, "**hi**", 0))
        await adapter.send(part(town.team, "in a thread", 1, thread_id=thread))
        await adapter.send(part(town.alice, "May I?", 2, ALLOW))
        bot = {"user": {"name": "users/8", "type": "BOT"}, "type": "MENTION"}
        mention = {"type": "USER_MENTION", "userMention": bot, "startIndex": 0, "length": 6}
        file = {
            "contentName": "f.png",
            "contentType": "image/png",
            "attachmentDataRef": {"resourceName": "ABC"},
        }
        more = {"annotations": [mention], "threadReply": True, "attachment": [file]}
        events = [
            server.event("hello"),
            server.event("@House x", message={**more, "argumentText": " x"}),
        ]
        return [message.body for message in server.messages.values()], events


async def of_microsoft() -> list[Any]:
    """Returns activities of our server, and those that the adapter sends."""
    async with TeamsServer() as server:
        mentioned = {"id": f"28:{APP}", "name": "House"}
        mention = {"type": "mention", "text": "<at>House</at>", "mentioned": mentioned}
        pressed = server.activity(value={wire.COMMAND: "/stop"}, replyToId="1")
        payload = server.activity(text="<at>House</at> x", entities=[mention])
        town = Teams(server, cursor := MemoryCursor())
        await cursor.write(f"service:{town.alice.id}", server.service)
        adapter = PostedTeams(server, cursor)
        await adapter.send(part(town.alice, "**hi**", 0))
        await adapter.send(part(town.alice, "May I?", 1, ALLOW))
        return [payload, pressed, *(message.body for message in server.messages)]


async def test_the_libraries_of_google_and_microsoft_read_what_we_write(tmp_path: Path) -> None:
    messages, events = await of_google(tmp_path)
    public = (
        signing_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    times = {"iat": (now := SystemClock().now_ms() // 1000), "exp": now + 3600}
    params = {
        "messages": messages,
        "events": events,
        "activities": await of_microsoft(),
        "assertion": {
            "token": signed(
                {"iss": "a@b", "scope": "s", "aud": "url", **times}, signing_key(), "k"
            ),
            "pem": public.decode(),
            "audience": "url",
        },
        "token": token({"iss": ISSUER, "aud": APP}),
        "jwk": jwk(),
        "audience": APP,
        "issuer": ISSUER,
    }
    python = program("SKERRY_OFFICES_PYTHON", ".venv-offices/bin/python")
    completed = subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
        [python, str(JUDGE)],
        check=False,
        input=msgspec.json.encode(params),
        capture_output=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr.decode()[-3000:]
    read = json.loads(completed.stdout)
    markup = "MARKUP_SYNTAX_CHAT"
    assert read["messages"] == [
        ["*hi*", "", markup, []],
        ["in a thread", "spaces/TEAM/threads/T", markup, []],
        ["May I?", "", markup, [["Allow", "/approve 1 allow-once"]]],
    ]
    assert read["events"] == [
        ["hello", "hello", "spaces/ALICE", "DIRECT_MESSAGE", "HUMAN"],
        ["@House x", " x", "spaces/ALICE", "DIRECT_MESSAGE", "HUMAN"],
    ]
    assert read["activities"] == [
        ["message", "<at>House</at> x", "personal", [f"28:{APP}"], []],
        ["message", None, "personal", [], []],
        ["message", "<b>hi</b>", None, [], []],
        ["message", "May I?", None, [], []],
    ]
    assert (read["assertion"], read["token"]) == (["a@b", "s"], APP)
