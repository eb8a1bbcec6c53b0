"""The client against a scripted gateway on a real socket."""

import json
from collections.abc import AsyncIterator

import anyio
import pytest
from websockets import Request, Response
from websockets.asyncio.server import Server, ServerConnection, serve

from skerry.client import client as client_module
from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.model.errors import GatewayRefusedError, GatewayUnreachableError
from tests.support.fake_gateway import TOKEN, Exchange, FakeGateway, fake_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with fake_gateway() as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: FakeGateway) -> AsyncIterator[GatewayClient]:
    with anyio.fail_after(60):
        async with GatewayClient(GatewayAddress(gateway.url, TOKEN)) as client:
            yield client


async def test_it_greets_as_a_command_line_client_of_protocol_4(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    (connect,) = gateway.connects
    assert (connect["minProtocol"], connect["maxProtocol"]) == (4, 4)
    assert (connect["client"]["id"], connect["client"]["mode"]) == ("cli", "cli")
    assert connect["auth"] == {"token": TOKEN}
    assert client.hello["server"]["version"] == "0.0.test"


async def test_answers_come_back_to_the_request_they_belong_to(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    first: list[Exchange] = []

    async def hold(exchange: Exchange) -> None:
        first.append(exchange)

    async def release(exchange: Exchange) -> None:
        await exchange.reply("second")
        await first[0].reply("first")

    gateway.methods |= {"hold": hold, "release": release}
    answers: dict[str, str] = {}

    async def ask(method: str) -> None:
        answers[method] = await client.request(method)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "hold")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask, "release")
    assert answers == {"hold": "first", "release": "second"}


async def test_of_two_responses_the_one_that_was_asked_for_is_returned(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    async def agent(exchange: Exchange) -> None:
        await exchange.reply({"status": "accepted"})
        await exchange.reply({"status": "ok"})

    gateway.methods["agent"] = agent
    assert await client.request("agent") == {"status": "accepted"}
    assert await client.request("agent", expect_final=True) == {"status": "ok"}


async def test_a_refusal_carries_the_codes_of_the_wire(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.refuse("UNAVAILABLE", "not now", {"code": "request.busy"})

    gateway.methods["agent"] = refuse
    with pytest.raises(GatewayRefusedError, match="not now") as caught:
        await client.request("agent")
    assert (caught.value.wire_code, caught.value.details_code) == ("UNAVAILABLE", "request.busy")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("MISSING_SCOPE", "missing scope: operator.admin"),
        ("request.unknown_method", "unknown method: cron.new"),
    ],
)
async def test_a_method_that_an_older_gateway_lacks_is_refused_with_its_version_and_a_remedy(
    gateway: FakeGateway, code: str, message: str
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.refuse("FORBIDDEN", message, {"code": code})

    gateway.features = {"methods": ["cron.list"]}
    gateway.methods |= {"cron.new": refuse, "cron.list": refuse}
    async with GatewayClient(GatewayAddress(gateway.url, TOKEN)) as client:
        with pytest.raises(GatewayRefusedError) as caught:
            await client.request("cron.new")
        with pytest.raises(GatewayRefusedError) as known:
            await client.request("cron.list")
    unknown = "The gateway (version 0.0.test) does not know the method 'cron.new'."
    assert (str(caught.value), caught.value.wire_code) == (unknown, "FORBIDDEN")
    assert caught.value.details_code == "request.unknown_method"
    assert "update Skerry where the gateway runs" in caught.value.remedy
    assert (str(known.value), known.value.details_code) == (message, code)


async def test_a_request_without_an_answer_ends_at_its_deadline(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    async def silent(exchange: Exchange) -> None:
        pass

    gateway.methods["silent"] = silent
    with pytest.raises(TimeoutError):
        await client.request("silent", timeout=0.01)
    assert await client.request("health") == {"ok": True}


async def test_a_lost_connection_ends_requests_and_subscriptions(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    async def hang_up(exchange: Exchange) -> None:
        await exchange.socket.close(1012, "restart")

    gateway.methods["bye"] = hang_up
    with client.subscribe() as events:
        with pytest.raises(GatewayUnreachableError, match="1012 restart"):
            await client.request("bye")
        assert [event async for event in events] == []
    assert client.closed.is_set()
    with pytest.raises(GatewayUnreachableError):
        await client.request("health")
    with client.subscribe() as events:
        assert [event async for event in events] == []


async def test_subscribers_get_events_in_order(gateway: FakeGateway, client: GatewayClient) -> None:
    async def burst(exchange: Exchange) -> None:
        for number in range(100):
            await exchange.event("tick", number=number)
        await exchange.reply({})

    gateway.methods["burst"] = burst
    with client.subscribe() as events:
        await client.request("burst")
        got = [(await events.receive()).payload["number"] for _ in range(100)]
    assert got == list(range(100))


async def test_a_subscriber_that_falls_behind_is_cut_off_and_harms_nobody(
    gateway: FakeGateway, client: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def burst(exchange: Exchange) -> None:
        for number in range(10):
            await exchange.event("tick", number=number)
        await exchange.reply({})

    gateway.methods["burst"] = burst
    monkeypatch.setattr(client_module, "EVENT_BUFFER", 4)
    with client.subscribe() as events:
        await client.request("burst")
        assert [event.payload["number"] async for event in events] == [0, 1, 2, 3]
    assert await client.request("health") == {"ok": True}


async def test_an_error_of_the_block_comes_out_as_itself(gateway: FakeGateway) -> None:
    with pytest.raises(KeyError):
        async with GatewayClient(GatewayAddress(gateway.url, TOKEN)):
            raise KeyError


async def test_a_wrong_token_is_refused_with_what_to_do(gateway: FakeGateway) -> None:
    with pytest.raises(GatewayRefusedError, match="unauthorized") as caught:
        async with GatewayClient(GatewayAddress(gateway.url, "wrong")):
            pass
    assert "SKERRY_GATEWAY_TOKEN" in caught.value.remedy


async def test_nobody_at_the_address_is_an_error_that_says_how_to_start_one() -> None:
    async with fake_gateway() as gone:
        pass
    with pytest.raises(GatewayUnreachableError, match="No gateway answers") as caught:
        async with GatewayClient(GatewayAddress(gone.url)):
            pass
    assert "skerry gateway run" in caught.value.remedy


async def test_a_frame_larger_than_the_bound_closes_the_connection(
    gateway: FakeGateway, client: GatewayClient
) -> None:
    gateway.answer("huge", "x" * (client_module.MAX_FRAME + 1))
    with pytest.raises(GatewayUnreachableError):
        await client.request("huge")


async def test_unknown_frames_are_passed_over(gateway: FakeGateway, client: GatewayClient) -> None:
    async def noise(exchange: Exchange) -> None:
        for text in ("not json", '{"type":"novel"}', "[" * 100_000, '{"type":"res","id":7}'):
            await exchange.socket.send(text)
        await exchange.socket.send(b"\x00\xff")
        await exchange.reply("through")

    gateway.methods["noise"] = noise
    assert await client.request("noise") == "through"


async def test_a_server_that_never_greets_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    monkeypatch.setattr(client_module, "HANDSHAKE_SECONDS", 0.05)
    async with serve(silent, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(GatewayUnreachableError, match="no greeting"):
            async with GatewayClient(GatewayAddress(f"ws://127.0.0.1:{port}")):
                pass


async def test_the_token_follows_no_redirect() -> None:
    texts: list[str] = []

    async def elsewhere(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "event", "event": "connect.challenge"}))
        texts.append(str(await socket.recv()))

    async with serve(elsewhere, "127.0.0.1", 0) as target:

        def redirect(connection: ServerConnection, _: Request) -> Response:
            response = connection.respond(302, "")
            response.headers["Location"] = f"ws://127.0.0.1:{port_of(target)}/"
            return response

        async with serve(elsewhere, "127.0.0.1", 0, process_request=redirect) as first:
            with anyio.fail_after(60), pytest.raises(GatewayUnreachableError):
                async with GatewayClient(GatewayAddress(f"ws://127.0.0.1:{port_of(first)}", TOKEN)):
                    pass
    assert texts == []


def port_of(server: Server) -> int:
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


async def test_no_proxy_of_the_environment_sees_the_token(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with anyio.fail_after(60):
        async with GatewayClient(GatewayAddress(gateway.url, TOKEN)) as client:
            assert await client.request("health") == {"ok": True}
