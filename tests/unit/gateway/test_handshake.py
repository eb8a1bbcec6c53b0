"""The handshake: every captured way to be let in or not, on a real socket."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.gateway import connection
from skerry.gateway.shared_secret import LOCKED_AFTER
from skerry.infra.backoff import Backoff
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.wire import OPERATOR, connect_params, connected, dial, request

KEY = bytes(range(32))
DEVICE: dict[str, Any] = {
    "id": hashlib.sha256(KEY).hexdigest(),
    "publicKey": base64.urlsafe_b64encode(KEY).rstrip(b"=").decode(),
    "signature": "x",
    "signedAt": 1,
    "nonce": "n",
}


async def test_the_challenge_comes_first_and_has_no_number(rig: Rig) -> None:
    async with dial(rig.url) as wire:
        (challenge,) = wire.frames
    assert challenge.keys() == {"type", "event", "payload"}
    assert challenge["payload"].keys() == {"nonce", "ts", "capabilities"}


async def test_hello_has_every_key_that_clients_need(rig: Rig) -> None:
    async with connected(rig.url, scopes=["operator.read"]) as wire:
        hello = wire.hello
    assert (hello["type"], hello["protocol"]) == ("hello-ok", 4)
    assert hello["auth"] == {"role": "operator", "scopes": ["operator.read"]}
    assert hello["policy"] == {
        "maxPayload": 26_214_400,
        "maxBufferedBytes": 52_428_800,
        "tickIntervalMs": 30_000,
        "attachments": {"maxBytes": 19_464_192, "maxImageBytes": 6_291_456},
    }
    assert set(hello["features"]["events"]) > {"agent", "chat", "presence", "health", "tick"}
    assert {"agent", "chat.send", "config.get"} <= set(hello["features"]["methods"])
    snapshot = hello["snapshot"]
    assert snapshot["sessionDefaults"]["mainSessionKey"] == "agent:main:main"
    assert snapshot["health"]["ok"]
    assert [entry["mode"] for entry in snapshot["presence"]] == ["gateway", "test"]


async def test_without_reading_the_snapshot_tells_nothing_of_others(rig: Rig) -> None:
    async with connected(rig.url, scopes=[]) as wire:
        assert wire.hello["snapshot"]["presence"] == []
        assert wire.hello["snapshot"]["health"] == {}


@pytest.mark.requirement("wire-connect-first")
async def test_another_first_request_is_refused(rig: Rig) -> None:
    text = "invalid handshake: first request must be connect"
    async with dial(rig.url) as wire:
        await wire.send(request("health"))
        answer = await wire.response("1")
        assert answer["error"] == {"code": "INVALID_REQUEST", "message": text}
        assert await wire.closed() == (1008, text)


@pytest.mark.parametrize("first", ["not json", "", b'{"type":"req"}', "[" * 100_000])
async def test_a_first_frame_that_is_no_text_of_json_closes_without_a_word(
    rig: Rig, first: str | bytes
) -> None:
    async with dial(rig.url) as wire:
        await wire.socket.send(first[:60_000])
        assert await wire.closed() == (1000, "")
        assert len(wire.frames) == 1


@pytest.mark.requirement("gateway-frame-schema-validation")
@pytest.mark.parametrize(
    "first",
    [
        {"type": "event", "event": "x"},
        {"type": "req", "method": "connect"},
        {"type": "req", "id": 5, "method": "connect"},
        {"type": "req", "id": "1", "method": "connect", "extra": 1},
        [],
        5,
    ],
)
async def test_a_first_frame_of_the_wrong_shape_closes(rig: Rig, first: object) -> None:
    async with dial(rig.url) as wire:
        await wire.send(first)
        assert await wire.closed() == (1008, "invalid request frame")
        assert len(wire.frames) == 1


@pytest.mark.requirement("wire-auth-token-match")
async def test_a_wrong_token_is_refused(rig: Rig) -> None:
    async with dial(rig.url) as wire:
        error = (await wire.connect(auth={"token": TOKEN[:-1] + "x"}))["error"]
        code, reason = await wire.closed()
    assert error["code"] == "INVALID_REQUEST"
    assert error["message"].startswith("unauthorized: gateway token mismatch (")
    assert error["details"] == {
        "code": "AUTH_TOKEN_MISMATCH",
        "authReason": "token_mismatch",
        "canRetryWithDeviceToken": False,
        "recommendedNextStep": "update_auth_credentials",
    }
    assert code == 1008
    assert reason == error["message"]


@pytest.mark.requirement("wire-auth-token-match")
@pytest.mark.parametrize("auth", [{}, {"token": ""}, {"deviceToken": TOKEN}])
async def test_without_a_token_a_device_is_asked_for(rig: Rig, auth: dict[str, str]) -> None:
    async with dial(rig.url) as wire:
        error = (await wire.connect(auth=auth))["error"]
        assert await wire.closed() == (1008, "device identity required")
    assert error["code"] == "NOT_PAIRED"
    assert error["details"] == {"code": "DEVICE_IDENTITY_REQUIRED"}


async def test_a_device_without_a_token_is_not_let_in(rig: Rig) -> None:
    async with dial(rig.url) as wire:
        error = (await wire.connect(auth=None, device=DEVICE))["error"]
        assert (await wire.closed())[0] == 1008
    assert error["details"]["code"] == "AUTH_TOKEN_MISSING"


@pytest.mark.parametrize("key", [DEVICE["publicKey"][:-2], "!!", "é"])
async def test_a_device_whose_id_is_not_its_keys_hash_is_refused(rig: Rig, key: str) -> None:
    async with dial(rig.url) as wire:
        error = (await wire.connect(device=DEVICE | {"publicKey": key}))["error"]
        assert await wire.closed() == (1008, "device identity mismatch")
    assert error["code"] == "INVALID_REQUEST"
    assert error["details"] == {
        "code": "DEVICE_AUTH_DEVICE_ID_MISMATCH",
        "reason": "device-id-mismatch",
    }


@pytest.mark.parametrize(
    ("bounds", "agreed"), [((3, 3), 3), ((4, 4), 4), ((3, 4), 4), ((1, 3), 3), ((1, 9), 4)]
)
async def test_the_higher_protocol_that_both_know_is_agreed(
    rig: Rig, bounds: tuple[int, int], agreed: int
) -> None:
    async with connected(rig.url, minProtocol=bounds[0], maxProtocol=bounds[1]) as wire:
        assert wire.hello["protocol"] == agreed


@pytest.mark.parametrize("bounds", [(1, 2), (5, 9), (4, 3)])
async def test_another_protocol_is_refused(rig: Rig, bounds: tuple[int, int]) -> None:
    async with dial(rig.url) as wire:
        answer = await wire.connect(minProtocol=bounds[0], maxProtocol=bounds[1])
        assert await wire.closed() == (1002, "protocol mismatch")
    assert answer["error"] == {
        "code": "INVALID_REQUEST",
        "message": "protocol mismatch",
        "details": {
            "code": "PROTOCOL_MISMATCH",
            "clientMinProtocol": bounds[0],
            "clientMaxProtocol": bounds[1],
            "expectedProtocol": 4,
            "minimumProbeProtocol": 3,
        },
    }


def client(**changes: Any) -> dict[str, Any]:
    return {"id": "test", "version": "1", "platform": "x", "mode": "test"} | changes


@pytest.mark.requirement("gateway-frame-schema-validation")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"client": client(id="netscape")},
            "at /client/id: must be equal to one of the allowed values",
        ),
        (
            {"client": client(mode="god")},
            "at /client/mode: must be equal to one of the allowed values",
        ),
        ({"client": None}, "must have required property 'client'"),
        ({"client": {"id": "test"}}, "at /client: must have required property 'version'"),
        ({"client": client(version="1\x1b[2J")}, "at /client/version: must match pattern"),
        ({"foo": 1}, "at root: unexpected property 'foo'"),
        ({"maxProtocol": "4"}, "at /maxProtocol: must be integer"),
        ({"scopes": "operator.admin"}, "at /scopes: must be array"),
        (
            {"auth": {"token": "x" * 5000}},
            "at /auth/token: must NOT have more than 4096 characters",
        ),
    ],
)
async def test_connect_parameters_are_checked(
    rig: Rig, changes: dict[str, Any], problem: str
) -> None:
    async with dial(rig.url) as wire:
        error = (await wire.connect(**changes))["error"]
        code, reason = await wire.closed()
    assert error["code"] == "INVALID_REQUEST"
    assert error["message"].startswith(f"invalid connect params: {problem}")
    assert code == 1008
    assert reason
    assert error["message"].startswith(reason)


async def test_an_unknown_role_is_refused(rig: Rig) -> None:
    async with dial(rig.url) as wire:
        answer = await wire.connect(role="emperor")
        assert answer["error"] == {"code": "INVALID_REQUEST", "message": "invalid role"}
        assert await wire.closed() == (1008, "invalid role")


@pytest.mark.parametrize(
    ("claimed", "granted"),
    [
        (None, ["operator.read"]),
        ([], []),
        (["operator.read", "root", "operator.read"], ["operator.read"]),
        (OPERATOR, OPERATOR),
    ],
)
async def test_scopes_are_the_claimed_ones_that_exist(
    rig: Rig, claimed: list[str] | None, granted: list[str]
) -> None:
    async with connected(rig.url, scopes=claimed) as wire:
        assert wire.hello["auth"]["scopes"] == granted


async def test_with_mode_none_no_token_is_needed(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, token=None) as rig, connected(rig.url, auth=None) as wire:
        assert wire.hello["snapshot"]["authMode"] == "none"


async def test_a_frame_above_64_kib_before_connect_is_refused_so_that_it_can_be_read(
    rig: Rig,
) -> None:
    async with dial(rig.url) as wire:
        await wire.send(request("connect", connect_params(pathEnv="x" * 70 * 1024)))
        assert await wire.closed() == (1009, "")


async def test_a_silent_client_is_closed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.HANDSHAKE_SECONDS == 10.0
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.1)
    async with dial(rig.url) as wire:
        assert await wire.closed() == (1000, "")


async def test_failures_are_slowed_down_and_the_right_token_is_not(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> float:
        begin = anyio.current_time()
        async with dial(rig.url) as wire:
            await wire.connect(auth={"token": "wrong", "deviceToken": "bogus"})
        return anyio.current_time() - begin

    await fail()
    assert await fail() >= 0.25
    assert await fail() >= 0.5
    longer = Backoff(base=60.0, cap=60.0)  # than anybody takes to connect
    monkeypatch.setattr("skerry.gateway.shared_secret.DELAYS", longer)
    async with dial(rig.url) as slow:
        await slow.send(request("connect", connect_params(auth={"token": "wrong"}), id="slow"))
        async with connected(rig.url):
            assert len(slow.frames) == 1  # still waiting for its refusal


async def test_a_gateway_that_is_not_ready_asks_to_come_again(rig: Rig) -> None:
    rig.context.health.fail("draining")
    async with dial(rig.url) as wire:
        error = (await wire.connect())["error"]
        assert await wire.closed() == (1013, "gateway starting")
    assert (error["code"], error["retryable"], error["retryAfterMs"]) == ("UNAVAILABLE", True, 500)
    assert error["details"] == {"reason": "startup-sidecars"}


async def test_a_client_that_leaves_in_the_handshake_leaves_nothing(rig: Rig) -> None:
    async with dial(rig.url):
        pass
    async with connected(rig.url) as wire:
        entries = wire.hello["snapshot"]["presence"]
        assert [entry["mode"] for entry in entries] == ["gateway", "test"]


async def test_requests_behind_connect_are_answered_after_hello_in_order(rig: Rig) -> None:
    async with dial(rig.url) as wire:
        frames = [request("connect", connect_params(), id="0")]
        frames += [request("system-presence", id=str(number)) for number in range(1, 50)]
        for frame in frames:
            await wire.socket.send(json.dumps(frame))
        await wire.response("49")
        answers = [frame["id"] for frame in wire.frames if frame["type"] == "res"]
    assert answers == [str(number) for number in range(50)]


@pytest.mark.parametrize(("protocol", "named"), [(4, "mismatch"), (3, "missing")])
async def test_a_password_where_a_token_is_asked_for_is_a_wrong_secret(
    rig: Rig, protocol: int, named: str
) -> None:
    async with dial(rig.url) as wire:
        error = (
            await wire.connect(auth={"password": "zz"}, minProtocol=protocol, maxProtocol=protocol)
        )["error"]
        code, _ = await wire.closed()
    assert (error["code"], code) == ("INVALID_REQUEST", 1008)
    assert error["message"].startswith(f"unauthorized: gateway token {named} (")
    assert error["details"]["code"] == f"AUTH_TOKEN_{named.upper()}"


async def test_a_password_in_place_of_a_token_counts_as_a_guess(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.gateway.shared_secret.DELAYS", Backoff(base=0.1, cap=0.1))
    headers = {"X-Forwarded-For": "203.0.113.9"}
    with anyio.fail_after(60):
        for number in range(LOCKED_AFTER):
            async with dial(rig.url, additional_headers=headers) as wire:
                guess = {"password": f"guess {number}"}
                await wire.connect(auth=guess, device=DEVICE if number % 2 else None)
        async with dial(rig.url, additional_headers=headers) as wire:
            error = (await wire.connect(auth={"password": "zz"}))["error"]
    assert error["details"]["code"] == "AUTH_RATE_LIMITED"
