"""WebSockets of accounts: the end that a server gives them."""

import anyio
import pytest

from skerry.sdk.channel_host import AccountHttp
from skerry.sdk.channel_socket import AccountSocket, SocketEndedError
from skerry.testing.http_server import ServedRequest, ServedResponse, ServedSocket, serve


async def nothing(_: ServedRequest) -> ServedResponse:
    return ServedResponse(status=404)


@pytest.mark.parametrize("code", [4004, 0])
async def test_what_was_sent_before_the_end_is_received_and_the_end_has_its_code(code: int) -> None:
    async def greet(socket: ServedSocket) -> None:
        await socket.send("one")
        await socket.send("two")
        await socket.close(code)

    async with serve(nothing, on_socket=greet) as address:
        http = AccountHttp([address])
        socket = await AccountSocket.open(http, address.replace("http:", "ws:"))
        with anyio.fail_after(60):
            assert [await socket.receive(30), await socket.receive(30)] == ["one", "two"]
            with pytest.raises(SocketEndedError) as caught:
                await socket.receive(30)
        assert caught.value.code == code
        await http.close()


async def test_a_server_without_websockets_is_said_to_have_none() -> None:
    async with serve(nothing) as address:
        http = AccountHttp([address])
        with pytest.raises(SocketEndedError, match="did not open a WebSocket"):
            await AccountSocket.open(http, address.replace("http:", "ws:"))
        await http.close()
