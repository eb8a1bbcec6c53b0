"""One HTTP/1.1 connection with faulty servers."""

from collections.abc import AsyncIterator

import anyio
import anyio.abc
import httpx2
import pytest

from skerry.infra.http import HttpClient
from tests.support.sockets import listening

END = b"\r\n\r\n"


class Server:
    """Answers the heads of requests in turn with `answers`, and closes behind those that say so."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.heads: list[bytes] = []

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while self.answers:
                    head = b""
                    while END not in head:
                        head += await stream.receive()
                    self.heads.append(head)
                    answer = self.answers.pop(0)
                    await stream.send(answer.removesuffix(b"<close>"))
                    if answer.endswith(b"<close>"):
                        return
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        with anyio.fail_after(60):
            yield client


async def ask(
    http: HttpClient, server: Server, count: int = 1, method: str = "GET"
) -> list[httpx2.Response]:
    async with listening(server.serve) as port:
        url = f"http://127.0.0.1:{port}/"
        return [await http.request(method, url) for _ in range(count)]


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_what_comes_before_the_answer_is_passed_over(http: HttpClient) -> None:
    server = Server(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK, OK)
    answers = await ask(http, server, 2)
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "ok")] * 2
    assert server.connections == 1


async def test_a_body_without_a_length_ends_with_its_connection(http: HttpClient) -> None:
    server = Server(b"HTTP/1.0 200 OK\r\n\r\nuntil the end<close>", OK)
    first, second = await ask(http, server, 2)
    assert (first.text, first.http_version, second.text) == ("until the end", "HTTP/1.0", "ok")
    assert server.connections == 2


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "answer", [CHUNKED, CHUNKED.replace(b"1.1", b"1.0") + b"<close>"], ids=["kept", "closed"]
)
async def test_a_body_that_ended_stays_at_its_end(http: HttpClient, answer: bytes) -> None:
    async with listening(Server(answer).serve) as port:
        request = httpx2.Request("GET", f"http://127.0.0.1:{port}/")
        response = await http.transport.handle_async_request(request)
        body = response.stream
        assert isinstance(body, httpx2.AsyncByteStream)
        assert b"".join([part async for part in body]) == b"ok"
        with anyio.fail_after(60):
            assert [part async for part in body] == []
        await response.aclose()


async def test_a_connection_that_is_to_be_closed_is_not_used_again(http: HttpClient) -> None:
    server = Server(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), OK)
    await ask(http, server, 2)
    assert server.connections == 2


async def test_a_request_may_want_its_connection_closed(http: HttpClient) -> None:
    server = Server(OK, OK)
    async with listening(server.serve) as port:
        for _ in range(2):
            await http.get(f"http://127.0.0.1:{port}/", headers={"connection": "close", "x": ""})
    assert server.connections == 2


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n"),
    ],
)
async def test_an_answer_that_has_no_body_has_none(
    http: HttpClient, method: str, answer: bytes
) -> None:
    server = Server(answer, answer)
    answers = await ask(http, server, 2, method)
    assert [answer.content for answer in answers] == [b"", b""]
    assert server.connections == 1


async def test_trailers_end_a_body_in_chunks(http: HttpClient) -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    server = Server(head + b"2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n", OK)
    answers = await ask(http, server, 2)
    assert [answer.text for answer in answers] == ["ok", "ok"]
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000 + END + b"<close>",
        CHUNKED[:-2] + b"x: " + b"x" * 400_000 + END + b"<close>",
        b"HTTP/1.1 200 OK\r\nbad name: 1" + END + b"<close>",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok<close>",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"<close>",
    ],
    ids=["protocol", "endless head", "endless trailer", "name", "cut", "two lengths", "nothing"],
)
async def test_what_breaks_the_rules_is_an_error_and_ends_the_connection(
    http: HttpClient, answer: bytes
) -> None:
    server = Server(answer, OK)
    async with listening(server.serve) as port:
        url = f"http://127.0.0.1:{port}/"
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get(url)
        assert (await http.get(url)).text == "ok"
    assert server.connections == 2


@pytest.mark.parametrize("extra", [OK.replace(b"ok", b"no"), b"nonsense", b"\r\n\r\n"])
async def test_what_follows_an_answer_unasked_answers_no_later_request(
    http: HttpClient, extra: bytes
) -> None:
    server = Server(OK + extra, OK)
    answers = await ask(http, server, 2)
    assert [answer.text for answer in answers] == ["ok", "ok"]
    assert [name for answer in answers for name in answer.headers] == ["content-length"] * 2


@pytest.mark.parametrize("length", ["3", "30"])
async def test_a_body_is_as_long_as_its_request_says(http: HttpClient, length: str) -> None:
    server = Server(OK)

    async def body() -> AsyncIterator[bytes]:
        yield b"ten bytes."

    async with listening(server.serve) as port:
        with pytest.raises(httpx2.LocalProtocolError):
            await http.post(
                f"http://127.0.0.1:{port}/", content=body(), headers={"content-length": length}
            )


async def test_a_server_may_answer_and_close_before_it_has_read_all(http: HttpClient) -> None:
    server = Server(
        b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmuch"
    )

    async def body() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"x" * 100_000

    async with listening(server.serve) as port:
        answer = await http.post(f"http://127.0.0.1:{port}/", content=body())
    assert (answer.status_code, answer.text) == (413, "much")


@pytest.mark.parametrize("value", ["a\r\nx-other: 1", "a\0b", " a", "a\t"])
async def test_no_header_is_smuggled_into_another_or_changed_on_its_way(
    http: HttpClient, value: str
) -> None:
    server = Server(OK, OK)
    async with listening(server.serve) as port:
        url = f"http://127.0.0.1:{port}/"
        await http.get(url)
        with pytest.raises(httpx2.LocalProtocolError):
            await http.get(url, headers={"x-name": value})
        await http.get(url)
    assert [b"x-other" in head for head in server.heads] == [False, False]


async def test_a_server_that_never_ends_the_greeting_of_tls_is_left(http: HttpClient) -> None:
    async def silent(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            while await stream.receive():
                pass

    timeout = httpx2.Timeout(60, connect=0.05)
    async with listening(silent) as port:
        with pytest.raises(httpx2.ConnectError):
            await http.get(f"https://127.0.0.1:{port}/", timeout=timeout)
