"""The identity of a device: its signature, and invalid ones."""

from typing import Any

import pytest

from skerry.gateway.device_identity import SKEW_MS
from tests.support.device import Device
from tests.support.gateway import Rig
from tests.support.wire import OPERATOR, Wire, dial

READ = ["operator.read"]


def changed(params: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return params | {"device": params["device"] | changes}


async def first_error(wire: Wire, params: dict[str, Any]) -> dict[str, Any]:
    await wire.send({"type": "req", "id": "c", "method": "connect", "params": params})
    answer = await wire.response("c")
    assert not answer["ok"], answer
    error: dict[str, Any] = answer["error"]
    assert await wire.closed() == (1008, error["message"])
    assert error["code"] == "INVALID_REQUEST"
    return error


@pytest.mark.parametrize(
    ("changes", "message", "code", "reason"),
    [
        ({"id": "0" * 64}, "identity mismatch", "DEVICE_ID_MISMATCH", "device-id-mismatch"),
        ({"publicKey": "AAAA"}, "identity mismatch", "DEVICE_ID_MISMATCH", "device-id-mismatch"),
        ({"signedAt": 1}, "signature expired", "SIGNATURE_EXPIRED", "device-signature-stale"),
        ({"nonce": "old"}, "nonce mismatch", "NONCE_MISMATCH", "device-nonce-mismatch"),
        ({"signature": "AAAA"}, "signature invalid", "SIGNATURE_INVALID", "device-signature"),
        ({"signature": "é!"}, "signature invalid", "SIGNATURE_INVALID", "device-signature"),
    ],
)
async def test_an_identity_that_does_not_hold_is_refused(
    rig: Rig, changes: dict[str, Any], message: str, code: str, reason: str
) -> None:
    async with dial(rig.url) as wire:
        params = Device().introduce(wire.frames[0]["payload"])
        error = await first_error(wire, changed(params, **changes))
    assert error["message"] == f"device {message}"
    assert error["details"] == {"code": f"DEVICE_AUTH_{code}", "reason": reason}


@pytest.mark.parametrize("skew", [-SKEW_MS - 60_000, SKEW_MS + 60_000])
async def test_a_clock_that_is_far_off_is_refused_even_when_signed(rig: Rig, skew: int) -> None:
    async with dial(rig.url) as wire:
        challenge = wire.frames[0]["payload"]
        params = Device().introduce(challenge | {"ts": challenge["ts"] + skew})
        error = await first_error(wire, params)
    assert error["details"]["code"] == "DEVICE_AUTH_SIGNATURE_EXPIRED"


@pytest.mark.parametrize(
    "changes",
    [
        {"scopes": OPERATOR},
        {"role": "node"},
        {"client": {"id": "cli", "version": "1", "platform": "linux", "mode": "test"}},
    ],
)
async def test_what_is_claimed_is_what_was_signed(rig: Rig, changes: dict[str, Any]) -> None:
    async with dial(rig.url) as wire:
        params = Device().introduce(wire.frames[0]["payload"], scopes=READ)
        error = await first_error(wire, params | changes)
    assert error["details"]["code"] == "DEVICE_AUTH_SIGNATURE_INVALID"


async def test_a_connect_that_was_overheard_lets_nobody_in_again(rig: Rig) -> None:
    device = Device()
    async with dial(rig.url) as wire, dial(rig.url) as thief:
        params = device.introduce(wire.frames[0]["payload"])
        await wire.send({"type": "req", "id": "c", "method": "connect", "params": params})
        assert (await wire.response("c"))["ok"]
        error = await first_error(thief, params)
    assert error["details"]["code"] == "DEVICE_AUTH_NONCE_MISMATCH"
