"""Requests of Meta to an account: their proof, their messages, and the order of these."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from skerry.model.errors import BusyError, StateError
from skerry.model.inbound import InboundMessage
from skerry.ports.channel import Post, PostAnswer
from skerry.testing.whatsapp_server import NUMBER_ID, VERIFY, WhatsAppServer, signed
from tests.contract.phones import PostedWhatsApp
from tests.unit.channels.whatsapp.test_whatsapp import read


class Rig:
    """A running account, and the messages in its inbox."""

    def __init__(self, server: WhatsAppServer) -> None:
        self.server = server
        self.adapter = PostedWhatsApp(server)
        self.texts: list[str] = []
        self.failures: list[Exception] = []

    async def inbox(self, message: InboundMessage) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.texts.append(message.text)

    async def post(self, body: bytes, headers: dict[str, str] | None = None) -> PostAnswer:
        given = signed(body) if headers is None else headers
        return await self.adapter.posted(Post("POST", "", {}, given, body))

    def body(self, *texts: str, **more: str) -> bytes:
        messages = [self.server.message("text", {"body": text}, **more)[1] for text in texts]
        return self.server.body({"messages": messages})


@asynccontextmanager
async def running() -> AsyncIterator[Rig]:
    async with WhatsAppServer() as server, anyio.create_task_group() as tasks:
        rig = Rig(server)
        tasks.start_soon(rig.adapter.run, rig.inbox)
        with anyio.fail_after(60):
            while not server.poster.url:  # noqa: ASYNC110 - it is set when the account runs
                await anyio.sleep(0.01)
        await anyio.wait_all_tasks_blocked()
        yield rig
        tasks.cancel_scope.cancel()


async def ask(rig: Rig, **query: str) -> PostAnswer:
    named = {f"hub.{name}": text for name, text in query.items()}
    return await rig.adapter.posted(Post("GET", "", named, {}, b""))


async def test_the_address_is_verified_by_the_token_alone() -> None:
    async with running() as rig:
        right = await ask(rig, mode="subscribe", verify_token=VERIFY, challenge="42")
        assert (right.status, right.body) == (200, b"42")
        assert right.content_type.startswith("text/plain")
        for query in (
            {"mode": "subscribe", "verify_token": VERIFY[:-1], "challenge": "42"},
            {"mode": "subscribe", "verify_token": "é", "challenge": "42"},
            {"mode": "subscribe", "challenge": "42"},
            {"mode": "subscribe", "verify_token": VERIFY},
            {"verify_token": VERIFY, "challenge": "42"},
        ):
            answer = await ask(rig, **query)
            assert (answer.status, b"42" in answer.body) == (403, False)


async def test_a_request_without_the_right_signature_reaches_nobody() -> None:
    async with running() as rig:
        body = rig.body("hello")
        (right,) = signed(body).values()
        for given in (
            {},
            {"x-hub-signature-256": ""},
            {"x-hub-signature-256": right.upper()},
            {"x-hub-signature-256": right.removeprefix("sha256=")},
            {"x-hub-signature-256": right + "0"},
            {"x-hub-signature-256": "sha256=é"},
            {"x-hub-signature": right},
            signed(body, "another secret"),
            signed(body + b" "),
        ):
            assert (await rig.post(body, given)).status == 401
        assert rig.texts == []
        assert (await rig.post(body)).status == 200
        assert rig.texts == ["hello"]


async def test_several_messages_of_a_request_are_taken_in_order() -> None:
    async with running() as rig:
        await rig.post(rig.body("one", "two", "three"))
        assert rig.texts == ["one", "two", "three"]


async def test_a_request_is_answered_200_only_after_the_inbox_took_it() -> None:
    async with running() as rig:
        rig.failures = [StateError("no room")]
        body = rig.body("hello")
        with pytest.raises(StateError):
            await rig.post(body)
        assert rig.texts == []
        assert (await rig.post(body)).status == 200
        assert rig.texts == ["hello"]


async def test_a_replayed_request_has_the_same_ids_and_one_of_long_ago_is_not_taken() -> None:
    async with running() as rig:
        assert (await rig.post(rig.body("old", timestamp="1600000000"))).status == 200
        assert (await rig.post(rig.body("none", timestamp="x"))).status == 200
        assert rig.texts == []
    first, again = read("text", {"body": "x"}), read("text", {"body": "x"})
    assert first is not None
    assert again is not None
    assert first.message_id == again.message_id  # the ledger takes it once


async def test_an_account_that_is_closed_takes_nothing() -> None:
    async with WhatsAppServer() as server:
        rig = Rig(server)
        with pytest.raises(BusyError):
            await rig.post(rig.body("hello"))
    async with running() as rig:
        adapter, body = rig.adapter, rig.body("hello")
    with pytest.raises(BusyError):
        await adapter.posted(Post("POST", "", {}, signed(body), body))


async def test_messages_of_another_number_of_the_app_are_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as rig:
        other = rig.body("hello").replace(NUMBER_ID.encode(), b"99")
        assert (await rig.post(other)).status == 200
        assert rig.texts == []
    assert "the number 99" in caplog.text


async def test_what_meta_will_never_say_better_is_not_asked_for_again() -> None:
    async with running() as rig:
        for body in (b"{", b"[]", b'{"entry": 5}', rig.server.body({"messages": [5]})):
            assert (await rig.post(body)).status == 200
        assert rig.texts == []
