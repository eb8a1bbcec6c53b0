"""E-mail through a whole gateway: a conversation, and kills that sent mail settles."""

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from skerry.testing.gateway import running_gateway
from skerry.testing.mail_server import ADDRESS, MailServer
from tests.support.oauth_server import StubOAuthServer

ALICE = "alice@people.example"


def everybody(server: MailServer) -> dict[str, Any]:
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"email": {**server.settings, **access}}}


async def idle(server: MailServer, sessions: int = 0) -> None:
    """Waits until the account has begun to watch its mailbox."""
    with anyio.fail_after(60):
        while server.idling <= sessions:
            await server.changed.wait()


async def test_a_conversation_runs(tmp_path: Path) -> None:
    async with MailServer() as server:
        server.say("from before")
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            await idle(server)
            first = server.say("hello", Subject="The sea")
            assert await server.wait_for(1) == ["echo: Subject: The sea\n\nhello"]
            sent = server.delivered[0]
            assert (sent.recipient, sent.mail["In-Reply-To"]) == (ALICE, f"<{first}>")
            assert sent.mail["Subject"] == "Re: The sea"
            server.say("I am away", Auto_Submitted="auto-replied")
            ours = str(sent.mail["Message-ID"])
            server.say("and now?\n\nOn Monday House wrote:\n> echo", References=f"<{first}> {ours}")
            assert (await server.wait_for(2))[1] == "echo: and now?"
            assert await gateway.stop() == 0
        assert [mail.parsed["Message-ID"] for mail in server.sent] == [
            mail.mail["Message-ID"] for mail in server.delivered
        ]
        assert server.faults == []


async def test_a_stranger_is_asked_to_pair_and_a_forger_never_is_the_owner(tmp_path: Path) -> None:
    async with MailServer() as server:
        config = {
            "channels": {"email": server.settings},
            "commands": {"ownerAllowFrom": [f"email:{ALICE}", f"email:unverified:{ALICE}"]},
        }
        async with running_gateway(home=tmp_path, config=config):
            await idle(server)
            server.say("hello")
            assert await server.wait_for(1) == ["echo: hello"]
            server.say("hello", verified=False)
            text = (await server.wait_for(2))[1]
            assert "pairing" in text.lower()
            assert f"unverified:{ALICE}" in text
            assert server.delivered[1].recipient == ALICE


@pytest.mark.parametrize(
    "point",
    ["store.after-commit:1", "dispatch.accepted", "delivery.before-send", "delivery.after-send"],
)
async def test_a_kill_at_any_point_leaves_one_answer(tmp_path: Path, point: str) -> None:
    async with MailServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            await idle(server)
            await gateway.stop()
            server.say("hello")
            with anyio.fail_after(120):
                with suppress(AssertionError):  # it was killed before it was ready
                    await gateway.start("--fault", point)
                    await gateway.wait()
            await gateway.start()
            await server.wait_for(1)
            server.say("again")
            with anyio.fail_after(60):
                while "echo: again" not in [mail.text for mail in server.delivered]:
                    await server.changed.wait()
            await gateway.stop()
        assert [mail.text for mail in server.delivered] == ["echo: hello", "echo: again"]
        assert {mail.mail["From"] for mail in server.delivered} == {ADDRESS}
        assert server.faults == []


async def test_a_mailbox_is_added_by_a_sign_in_in_the_browser(tmp_path: Path) -> None:
    async with StubOAuthServer() as issuer, MailServer(tokens=issuer.access) as mail:
        settings = {**mail.settings, "dmPolicy": "open", "allowFrom": ["*"]}
        del settings["password"]
        config = {"channels": {"email": settings}}
        async with running_gateway(home=tmp_path, config=config) as gateway:
            environ = {
                "HOME": str(tmp_path),
                "SKERRY_STATE_DIR": str(tmp_path),
                "SKERRY_GATEWAY_URL": gateway.address.url,
                "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
            }
            command = ["-m", "skerry", "channels", "add", "email", "--oauth", "custom", "--json"]
            for key, value in (
                ("clientId", "client"),
                ("tokenUrl", issuer.token_url),
                ("authorizeUrl", issuer.authorize_url),
            ):
                command += ["--set", f"oauth.{key}={value}"]
            async with await anyio.open_process([sys.executable, *command], env=environ) as process:
                assert process.stdin is not None
                with anyio.fail_after(60):
                    back = issuer.approve(await shown_address(process))
                    # The browser is on another machine: its person pastes where it ended.
                    await process.stdin.send(f"{back}\n".encode())
                    code = await process.wait()
                    assert process.stderr is not None
                    assert code == 0, (await process.stderr.receive()).decode()
            await idle(mail)
            mail.say("hello")
            assert await mail.wait_for(1) == ["echo: hello"]
        stored = json.loads((tmp_path / "skerry.json").read_text())["channels"]["email"]["oauth"]
        assert stored["refreshToken"].startswith("refresh-")
        assert mail.faults == []


async def shown_address(process: anyio.abc.Process) -> str:
    """Returns the address that the command prints for a browser."""
    shown = ""
    assert process.stderr is not None
    while not (match := re.search(r"(http\S+/authorize\S+)\n", shown)):
        shown += (await process.stderr.receive()).decode()
    return match[1]
