"""The small HTTP server of the fakes: the frames that its WebSockets receive."""

import anyio
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from skerry.testing.http_server import ServedRequest, ServedResponse, ServedSocket, serve


async def nothing(_: ServedRequest) -> ServedResponse:
    return ServedResponse.of({})


async def test_messages_that_arrive_together_are_received_one_by_one() -> None:
    received: list[str | None] = []
    ended = anyio.Event()

    async def listen(socket: ServedSocket) -> None:
        while (text := await socket.receive()) is not None:
            received.append(text)
            if len(received) == 3:
                ended.set()

    with anyio.fail_after(60):
        async with serve(nothing, on_socket=listen) as url:
            client = ClientProtocol(parse_uri(url.replace("http:", "ws:") + "/"))
            host, port = url.removeprefix("http://").split(":")
            async with await anyio.connect_tcp(host, int(port)) as stream:
                client.send_request(client.connect())
                await stream.send(b"".join(client.data_to_send()))
                client.receive_data(await stream.receive())
                for text in (b"one", b"two", b"three"):
                    client.send_text(text)
                await stream.send(b"".join(client.data_to_send()))
                await ended.wait()
    assert received == ["one", "two", "three"]
