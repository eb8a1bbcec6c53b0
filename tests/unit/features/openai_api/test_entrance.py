"""Access to the API: the token before the body, limits, and pages of other sites."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.gateway import request_body
from skerry.gateway.peer import ClientPeer
from skerry.gateway.shared_secret import LOCKED_AFTER
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.api_client import API_TOKEN, AUTH, CHAT, TOKEN, chat_body, chunks, serving_api

PROXY: dict[str, Any] = {"trustedProxies": ["127.0.0.1"]}
REMOTE = {"x-forwarded-for": "203.0.113.9"}


def error(response: Any) -> dict[str, Any]:
    """Returns the error, whose form is that of OpenAI."""
    payload: dict[str, Any] = response.json()["error"]
    assert set(payload) == {"message", "type", "param", "code"}
    assert isinstance(payload["message"], str)
    return payload


async def test_the_api_is_off_by_default(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h", http={"endpoints": {}}) as api:
        for path, method in ((CHAT, "POST"), ("/v1/models", "GET")):
            response = await api(None, path=path, method=method)
            assert response.status_code == 404
            assert "gateway.http.endpoints.chatCompletions.enabled" in error(response)["message"]


@pytest.mark.abuse(16)
async def test_nothing_is_answered_without_the_token(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        for path, method in ((CHAT, "POST"), ("/v1/models", "GET"), ("/v1/other", "GET")):
            for headers in ({}, {"authorization": f"Bearer {TOKEN}x"}, {"x-api-key": TOKEN}):
                response = await api(None, headers, path, method)
                assert response.status_code == 401
                assert error(response)["code"] == "invalid_api_key"
        assert (await api(None, AUTH, "/v1/models", "GET")).status_code == 200


async def test_the_body_of_a_request_without_the_token_is_not_read(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\nContent-Length: 9\r\n\r\n"
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            await stream.send(head.encode())
            with anyio.fail_after(60):
                assert b" 401 " in await stream.receive()


async def test_wrong_tokens_of_websockets_and_http_are_counted_together(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h", gateway=PROXY, http={"token": API_TOKEN}) as api:
        failures, peer = api.application.context.failures, ClientPeer("203.0.113.9", local=False)
        wrong = {"authorization": "Bearer wrong", **REMOTE}
        assert (await api(None, wrong)).status_code == 401
        for _ in range(LOCKED_AFTER - 1):
            failures.delay(peer, anyio.current_time())
        right = {"authorization": f"Bearer {API_TOKEN}", **REMOTE}
        response = await api(chat_body("hi"), right)
        assert response.status_code == 429
        assert error(response)["code"] == "too_many_failures"
        assert int(response.headers["retry-after"]) > 0
        elsewhere = {"authorization": f"Bearer {API_TOKEN}", "x-forwarded-for": "203.0.113.8"}
        assert (await api(chat_body("hi"), elsewhere)).status_code == 200


async def test_the_gateways_token_is_for_this_machine_and_other_machines_need_another(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path / "h", gateway=PROXY, http={"token": API_TOKEN}) as api:
        own = {"authorization": f"Bearer {API_TOKEN}"}
        assert (await api(chat_body("hi"), own)).status_code == 200
        assert (await api(chat_body("hi"), {**own, **REMOTE})).status_code == 200
        response = await api(chat_body("hi"), {**AUTH, **REMOTE})
        assert (response.status_code, error(response)["code"]) == (403, "remote_token")
    async with serving_api(tmp_path / "s", gateway=PROXY, http={"token": TOKEN}) as api:
        assert (await api(chat_body("hi"), {**AUTH, **REMOTE})).status_code == 403


async def test_pages_of_other_sites_are_refused(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        foreign = await api(chat_body("hi"), {**AUTH, "sec-fetch-site": "cross-site"})
        assert (foreign.status_code, error(foreign)["code"]) == (403, "foreign_site")
        page = await api(chat_body("hi"), {**AUTH, "origin": "https://evil.example"})
        assert page.status_code == 403
        rebound = await api(chat_body("hi"), {**AUTH, "host": f"evil.example:{api.port}"})
        assert rebound.status_code == 421


async def test_methods_paths_and_sizes_are_limited(tmp_path: Path) -> None:
    small = {"endpoints": {"chatCompletions": {"enabled": True, "maxBodyBytes": 1_024}}}
    async with serving_api(tmp_path / "h", http=small) as api:
        response = await api(None, method="GET")
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
        assert (await api(None, path="/v1/models")).status_code == 405
        assert error(await api({}, path="/v1/embeddings"))["code"] == "unknown_url"
        large = await api(chat_body("x" * 1_024))
        assert large.status_code == 413
        assert "1024 bytes" in error(large)["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", "invalid_json"), (b"[]", "invalid_json"), (b'{"a":' * 70 + b"1" + b"}" * 70, "")],
)
async def test_a_body_that_is_no_object_is_refused(tmp_path: Path, body: bytes, code: str) -> None:
    async with serving_api(tmp_path / "h") as api:
        response = await api(body)
        assert response.status_code == 400
        assert error(response)["code"] == (code or "invalid_json")


async def test_open_requests_are_limited_until_one_is_answered(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["one", gate], ["two"]])
    async with serving_api(tmp_path / "h", model, {"maxOpenRequests": 1}) as api:
        first: list[Any] = []

        async def ask() -> None:
            first.append(await api(chat_body("hi", stream=True)))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await gate.reached.wait()
                response = await api(chat_body("hi"))
                assert (response.status_code, error(response)["code"]) == (429, "too_many_requests")
                assert (await api(None, path="/v1/models", method="GET")).status_code == 200
                gate.open()
        assert chunks(first[0].text)[-1]["choices"][0]["finish_reason"] == "stop"
        assert (await api(chat_body("hi"))).status_code == 200


@pytest.mark.parametrize("authorization", ["", f"Authorization: Bearer {TOKEN}\r\n"])
async def test_a_refused_client_that_still_sends_gets_the_response(
    tmp_path: Path, authorization: str
) -> None:
    piece, pieces = b"x" * 65_536, 400
    async with serving_api(tmp_path / "h") as api:
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\n{authorization}"
            f"Content-Length: {len(piece) * pieces}\r\n\r\n"
        )
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            with anyio.fail_after(60):
                await stream.send(head.encode())
                received = await stream.receive(1)
                for _ in range(pieces):
                    await stream.send(piece)
                while b"\r\n\r\n{" not in received or received[-2:] != b"}}":
                    received += await stream.receive()
        assert b" 413 " in received if authorization else b" 401 " in received


async def test_a_body_that_does_not_arrive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(request_body, "DISCARD_SECONDS", 0.1)
    async with serving_api(tmp_path / "h") as api:
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            await api.send_raw(stream, b"", "Transfer-Encoding: chunked", length=False)
            received = b""
            with anyio.fail_after(60):
                while not received.endswith(b"}}"):
                    received += await stream.receive()
        assert b" 408 " in received
