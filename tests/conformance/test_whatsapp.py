"""The fake Cloud API and the bodies of our adapter, judged by pywa."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.channels.whatsapp import wire
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, Button, OutboundPart
from skerry.testing.whatsapp_server import NUMBER_ID, TOKEN, WhatsAppServer
from tests.contract.phones import PostedWhatsApp
from tests.support.mocks import program

pytestmark = pytest.mark.full("pywa")

JUDGE = Path(__file__).parent / "whatsapp" / "judge.py"
TO = ReplyTo(
    wire.CHANNEL, AccountId("default"), Peer(PeerKind.DIRECT, "+491701"), "wamid.1", quote="wamid.0"
)
UNQUOTED = msgspec.structs.replace(TO, quote=None)
CHOICES = tuple(Button(f"C{number}", f"/c {number}") for number in range(4))


def part(text: str, to: ReplyTo, more: Additions = PLAIN) -> OutboundPart:
    return OutboundPart(1, RunId("r"), 0, 0, to, text, more)


async def send_all(adapter: PostedWhatsApp) -> None:
    """Sends the contents that the judge sends too."""
    await adapter.send(part("**hi**", TO))
    allow = Additions(buttons=((Button("Allow", "/approve 1 allow-once"),),))
    await adapter.send(part("May I?", UNQUOTED, allow))
    await adapter.send(part("Which?", UNQUOTED, Additions(buttons=(CHOICES,))))
    await adapter.react(UNQUOTED, "👀")
    await adapter.typing(UNQUOTED)


def say_all(server: WhatsAppServer) -> None:
    """Lets a person say something of each kind."""
    server.say("hello", name="Ada")
    for kind, content in (
        ("image", {"id": "77", "mime_type": "image/jpeg", "sha256": "x", "caption": "look"}),
        ("audio", {"id": "78", "mime_type": "audio/ogg", "sha256": "x", "voice": True}),
        ("document", {"id": "79", "mime_type": "a/b", "sha256": "x", "filename": "f.pdf"}),
        ("location", {"latitude": 1.5, "longitude": 2.5, "name": "Quay"}),
        ("contacts", [{"name": {"formatted_name": "Bo"}, "phones": [{"phone": "+1"}]}]),
        ("reaction", {"message_id": "wamid.1", "emoji": "👍"}),
        ("edit", edited("wamid.1", "new")),
    ):
        server.post([server.message(kind, content)[1]], "Ada")
    server.press("/approve 1 allow-once")
    server.status("failed", "r/0/0", errors=[{"code": 131047, "title": "no", "message": "no"}])


def edited(original: str, text: str) -> dict[str, Any]:
    message = {"type": "text", "id": original, "text": {"body": text}}
    return {"original_message_id": original, "message": message}


async def test_the_library_understands_our_server_and_sends_the_same_requests() -> None:
    python = program("SKERRY_PYWA_PYTHON", ".venv-pywa/bin/python")
    with anyio.fail_after(120):
        async with WhatsAppServer(reports=False) as server:
            say_all(server)
            lines = b"".join(body + b"\n" for body, _ in server.poster.waiting)
            command = [python, str(JUDGE), server.root, NUMBER_ID, TOKEN]
            completed = await anyio.run_process(command, input=lines, stderr=None)
            judged = json.loads(completed.stdout)
            await send_all(PostedWhatsApp(server))
            taken, faults = server.bodies, server.faults
    assert faults == []
    assert len(taken) == 2 * len(judged["bodies"]) == 10
    assert taken[5:] == judged["bodies"]
    who = ["Ada", "491701"]
    assert judged["read"] == [
        ["text", "hello", *who],
        ["image", ["77", "look"], *who],
        ["audio", ["78", True], *who],
        ["document", ["79", "f.pdf"], *who],
        ["location", [1.5, "Quay"], *who],
        ["contacts", "+1", *who],
        ["reaction", "👍", *who],
        ["edit", "wamid.1", "new"],
        ["pressed", "/approve 1 allow-once", "491701"],
        ["failed", "r/0/0", 131047],
    ]
