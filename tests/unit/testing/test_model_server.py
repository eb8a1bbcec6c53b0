"""The loopback model server of the tests and benchmarks."""

import json
import sys
from typing import Any

import anyio
import httpx2
import pytest

from skerry.infra.http import HttpClient
from skerry.model.message import ToolCall
from skerry.testing.model_server import Cut, HttpStep, Raw, StatusReply, StubModelServer


async def ask(url: str, text: str = "hi", role: str = "user") -> httpx2.Response:
    body = {"messages": [{"role": role, "content": text}], "stream": True}
    with anyio.fail_after(60):
        async with HttpClient() as http:
            return await http.post(f"{url}/chat/completions", json=body)


def pieces(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = response.text.splitlines()
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def texts(response: httpx2.Response) -> list[str]:
    deltas = [piece["choices"][0]["delta"] for piece in pieces(response) if piece["choices"]]
    return [delta["content"] for delta in deltas if "content" in delta]


async def test_a_text_is_one_event_or_as_many_as_asked_for() -> None:
    async with StubModelServer([["Hello", " there"]]) as whole:
        assert texts(await ask(whole.base_url)) == ["Hello", " there"]
    async with StubModelServer([["abcdefg"]], events_per_text=3) as cut:
        assert texts(await ask(cut.base_url)) == ["abc", "def", "g"]


async def test_a_reply_ends_with_its_finish_reason_usage_and_done() -> None:
    async with StubModelServer([["Hello"]]) as stub:
        *_, finish, usage = pieces(await ask(stub.base_url))
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 15


async def test_a_tool_call_comes_in_pieces() -> None:
    async with StubModelServer([[ToolCall("c", "read", {"path": "a/b/c"})]]) as stub:
        *calls, finish, _ = pieces(await ask(stub.base_url))
    deltas = [piece["choices"][0]["delta"]["tool_calls"][0] for piece in calls]
    assert (deltas[0]["id"], deltas[0]["function"]["name"]) == ("c", "read")
    assert "".join(delta["function"]["arguments"] for delta in deltas) == '{"path":"a/b/c"}'
    assert len(deltas) > 2
    assert finish["choices"][0]["finish_reason"] == "tool_calls"


async def test_without_a_script_it_echoes() -> None:
    async with StubModelServer() as stub:
        assert "".join(texts(await ask(stub.base_url, "hello"))) == "echo: hello"
        assert "".join(texts(await ask(stub.base_url, "out", "tool"))) == "result: out"
        call = pieces(await ask(stub.base_url, 'call read {"path":"a"}'))[0]
    assert call["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "read"


async def test_a_status_a_cut_and_raw_bytes_are_played() -> None:
    script: list[list[HttpStep]] = [
        [StatusReply(429, b"{}", (("retry-after", "1"),))],
        [Raw(b"data: x\n\n"), Cut()],
    ]
    async with StubModelServer(script) as stub:
        failed = await ask(stub.base_url)
        cut = await ask(stub.base_url)
    assert (failed.status_code, failed.headers["retry-after"]) == (429, "1")
    assert cut.text == "data: x\n\n"


async def test_a_cut_connection_breaks_the_response() -> None:
    async with StubModelServer([["half", Cut(connection=True)]]) as stub:
        with pytest.raises(httpx2.RemoteProtocolError):
            await ask(stub.base_url)


async def test_requests_and_connections_are_counted() -> None:
    async with StubModelServer() as stub, HttpClient() as http:
        body = {"messages": [{"role": "user", "content": "x" * 100_000}]}
        for _ in range(3):
            await http.post(f"{stub.base_url}/chat/completions", json=body)
        await http.get(f"{stub.base_url}/models")
        assert (stub.count, stub.connections, len(stub.requests)) == (3, 1, 4)
        root = stub.base_url.removesuffix("/v1")
        assert (await http.get(f"{root}/count")).json() == {"count": 3}


async def test_as_a_program_it_prints_its_address_and_answers() -> None:
    command = [
        sys.executable,
        "-m",
        "skerry.testing.model_server",
        "--port",
        "0",
        "--text",
        "fixed",
    ]
    with anyio.fail_after(60):
        async with await anyio.open_process(command, stderr=None) as process:
            assert process.stdout is not None
            url = json.loads(await process.stdout.receive())["base_url"]
            assert "".join(texts(await ask(url))) == "fixed"
            process.terminate()
