"""Devices: pairing and tokens, on real sockets."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.infra.backoff import Backoff
from skerry.store import devices
from tests.support.device import REMOTE, Device, text
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.wire import OPERATOR, connect_params, connected, dial

READ = ["operator.read"]


async def pending(rig: Rig) -> list[dict[str, Any]]:
    async with connected(rig.url) as admin:
        listing = await admin.call("device.pair.list")
    found: list[dict[str, Any]] = listing["pending"]
    return found


async def approve(rig: Rig, request_id: str) -> dict[str, Any]:
    async with connected(rig.url) as admin:
        answer: dict[str, Any] = await admin.call("device.pair.approve", {"requestId": request_id})
    return answer


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("protocol", [3, 4])
async def test_on_this_machine_a_device_is_paired_at_once(
    rig: Rig, version: int, protocol: int
) -> None:
    device = Device()
    bounds: dict[str, Any] = {"minProtocol": protocol, "maxProtocol": protocol}
    async with device.connected(rig.url, version=version, scopes=READ, **bounds) as wire:
        auth = wire.hello["auth"]
    assert auth.keys() == {"deviceToken", "role", "scopes", "issuedAtMs"}
    assert (auth["role"], auth["scopes"]) == ("operator", READ)
    async with connected(rig.url) as admin:
        listing = await admin.call("device.pair.list")
    (payload,) = listing["paired"]
    assert payload["deviceId"] == device.id
    assert payload["publicKey"] == text(device.public)
    assert (payload["roles"], payload["scopes"]) == (["operator"], READ)
    assert device.token not in str(listing)
    raw = b"".join(file.read_bytes() for file in rig.context.config().state_dir.glob("state.*"))
    assert device.token.encode() not in raw


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Host", "Via"]
)
async def test_behind_a_proxy_a_device_waits_until_it_is_approved(rig: Rig, header: str) -> None:
    device = Device()
    headers = {header: "127.0.0.1"}
    async with connected(rig.url) as admin:
        error = await device.refused(rig.url, headers, scopes=READ)
        payload = (await admin.event("device.pair.requested"))["payload"]
        request_id = error["details"]["requestId"]
        assert error["code"] == "NOT_PAIRED"
        assert error["message"] == "pairing required: device is not approved yet"
        assert error["details"] == {
            "code": "PAIRING_REQUIRED",
            "reason": "not-paired",
            "requestId": request_id,
            "remediationHint": f"Run on the gateway: skerry devices approve {request_id}",
            "recommendedNextStep": "wait_then_retry",
            "retryable": True,
            "pauseReconnect": False,
            "deviceId": device.id,
            "requestedRole": "operator",
            "requestedScopes": READ,
        }
        assert (payload["requestId"], payload["deviceId"]) == (request_id, device.id)
        again = await device.refused(rig.url, headers, scopes=READ)
        assert again["details"]["requestId"] == request_id
        answer = await admin.call("device.pair.approve", {"requestId": request_id})
        assert answer["device"]["deviceId"] == device.id
        resolved = admin.seen("device.pair.resolved")
        assert (resolved["requestId"], resolved["decision"]) == (request_id, "approved")
    async with device.connected(rig.url, headers, scopes=READ) as wire:
        assert wire.hello["auth"]["scopes"] == READ
    assert await pending(rig) == []


async def test_elsewhere_a_client_without_a_device_is_not_let_in(rig: Rig) -> None:
    async with dial(rig.url, additional_headers=REMOTE) as wire:
        error = (await wire.connect())["error"]
        assert await wire.closed() == (1008, "device identity required")
    assert error["code"] == "NOT_PAIRED"
    assert error["details"] == {"code": "DEVICE_IDENTITY_REQUIRED"}


async def test_the_owner_may_switch_that_off(tmp_path: Path) -> None:
    config = {"gateway": {"controlUi": {"dangerouslyDisableDeviceAuth": True}}}
    async with (
        running_gateway(tmp_path, config=config) as rig,
        dial(rig.url, additional_headers=REMOTE) as wire,
    ):
        assert (await wire.connect())["ok"]


async def test_a_device_without_the_secret_cannot_even_ask(rig: Rig) -> None:
    device = Device()
    error = await device.refused(rig.url, REMOTE, auth=None)
    assert error["details"]["code"] == "AUTH_TOKEN_MISSING"
    error = await device.refused(rig.url, REMOTE, auth={"token": "wrong"})
    assert error["details"]["code"] == "AUTH_TOKEN_MISMATCH"
    assert not error["details"]["canRetryWithDeviceToken"]
    assert await pending(rig) == []


@pytest.mark.parametrize("field", ["deviceToken", "token"])
async def test_the_token_of_a_device_lets_it_in_instead_of_the_secret(rig: Rig, field: str) -> None:
    device = Device()
    async with device.connected(rig.url, scopes=READ):
        pass
    first = device.token
    async with device.connected(rig.url, REMOTE, scopes=READ, auth={field: first}) as wire:
        assert wire.hello["auth"]["deviceToken"] == first
    other = Device()
    error = await other.refused(rig.url, scopes=READ, auth={"deviceToken": first})
    assert error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


async def test_a_paired_device_with_an_old_secret_is_told_to_show_its_token(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url, scopes=READ):
        pass
    details = (await device.refused(rig.url, scopes=READ, auth={"token": "old"}))["details"]
    assert details["canRetryWithDeviceToken"]
    assert details["recommendedNextStep"] == "retry_with_device_token"
    retry = {"token": "old", "deviceToken": device.token}
    async with device.connected(rig.url, scopes=READ, auth=retry):
        pass


async def test_a_token_alone_never_widens_what_its_device_may(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url, scopes=READ):
        pass
    error = await device.refused(rig.url, auth={"deviceToken": device.token})
    assert error["details"]["reason"] == "scope-upgrade"


async def test_with_the_secret_more_scopes_come_at_once_here_and_by_approval_elsewhere(
    rig: Rig,
) -> None:
    device = Device()
    async with device.connected(rig.url, scopes=READ):
        pass
    error = await device.refused(rig.url, REMOTE, scopes=["operator.write"])
    assert error["message"].startswith("pairing required: device is asking for more scopes")
    assert error["details"]["reason"] == "scope-upgrade"
    narrow = error["details"]["requestId"]
    error = await device.refused(rig.url, REMOTE)
    wide = error["details"]["requestId"]
    assert wide != narrow  # nobody approves what he has not seen
    async with connected(rig.url) as admin:
        answer = await admin.ask("device.pair.approve", {"requestId": narrow})
        assert answer["error"]["message"] == "unknown requestId"
    async with device.connected(rig.url) as wire:
        assert wire.hello["auth"]["scopes"] == OPERATOR
    async with device.connected(rig.url, REMOTE) as wire:
        assert wire.hello["auth"]["scopes"] == OPERATOR


async def test_a_wider_scope_covers_a_narrower_one(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url, scopes=["operator.write"]):
        pass
    async with device.connected(rig.url, REMOTE, scopes=READ) as wire:
        assert wire.hello["auth"]["scopes"] == READ


async def test_who_approves_must_hold_what_is_asked_for(rig: Rig) -> None:
    error = await Device().refused(rig.url, REMOTE)
    request = {"requestId": error["details"]["requestId"]}
    async with connected(rig.url, scopes=["operator.pairing", "operator.read"]) as pairer:
        answer = await pairer.ask("device.pair.approve", request)
        assert answer["error"]["message"] == "missing scope: operator.write"
    async with connected(rig.url) as admin:
        await admin.call("device.pair.reject", request)
        resolved = admin.seen("device.pair.resolved")
    assert resolved["decision"] == "rejected"
    assert await pending(rig) == []


async def test_only_so_many_may_wait_and_not_for_ever(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "MAX_PENDING", 2)
    waiting = [Device() for _ in range(3)]
    for device in waiting:
        await device.refused(rig.url, REMOTE)
    assert [row["deviceId"] for row in await pending(rig)] == [device.id for device in waiting[1:]]
    monkeypatch.setattr(devices, "PENDING_MS", 0)
    assert await pending(rig) == []


async def test_a_device_keeps_only_its_newest_tokens(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "MAX_TOKENS", 2)
    device = Device()
    tokens = []
    for _ in range(3):
        async with device.connected(rig.url, scopes=READ):
            tokens.append(device.token)
    for token in tokens[1:]:
        async with device.connected(rig.url, scopes=READ, auth={"deviceToken": token}):
            pass
    await device.refused(rig.url, scopes=READ, auth={"deviceToken": tokens[0]})


async def test_the_device_that_was_away_longest_gives_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "MAX_GRANTS", 2)
    known = [Device() for _ in range(3)]
    for device in known:
        async with device.connected(rig.url, scopes=READ):
            pass
        await anyio.sleep(0.002)  # the order is by the millisecond
    async with connected(rig.url) as admin:
        paired = (await admin.call("device.pair.list"))["paired"]
    assert {row["deviceId"] for row in paired} == {device.id for device in known[1:]}


async def test_rotating_ends_every_earlier_token_and_the_connections_that_had_it(
    rig: Rig,
) -> None:
    device = Device()
    async with device.connected(rig.url) as live, connected(rig.url) as admin:
        old = device.token
        which = {"deviceId": device.id, "role": "operator"}
        answer = await admin.call("device.token.rotate", which | {"scopes": READ})
        assert await live.closed() == (1008, "device token rotated")
    assert (answer["scopes"], answer["tokenDelivery"]) == (READ, "in-band")
    error = await device.refused(rig.url, scopes=READ, auth={"deviceToken": old})
    assert error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"
    auth = {"deviceToken": answer["token"]}
    async with device.connected(rig.url, scopes=READ, auth=auth):
        pass
    error = await device.refused(rig.url, auth=auth)
    assert error["details"]["reason"] == "scope-upgrade"


async def test_who_rotates_his_own_token_stays(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url) as live:
        await live.call("device.token.rotate", {"deviceId": device.id, "role": "operator"})
        await live.call("health")


async def test_a_rotated_token_has_no_scope_that_nobody_approved(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url, scopes=READ), connected(rig.url) as admin:
        which = {"deviceId": device.id, "role": "operator", "scopes": ["operator.admin"]}
        answer = await admin.ask("device.token.rotate", which)
        assert answer["error"]["message"] == "the device was not approved for operator.admin"


@pytest.mark.parametrize("method", ["device.token.rotate", "device.token.revoke"])
async def test_who_may_less_than_a_device_cannot_touch_its_token(rig: Rig, method: str) -> None:
    device = Device()
    async with (
        device.connected(rig.url),
        connected(rig.url, scopes=["operator.pairing"]) as pairer,
    ):
        answer = await pairer.ask(method, {"deviceId": device.id, "role": "operator"})
        assert answer["error"]["code"] == "FORBIDDEN"


async def test_a_revoked_device_is_out_at_once_and_until_it_is_approved(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url) as live, connected(rig.url) as admin:
        which = {"deviceId": device.id, "role": "operator"}
        await admin.call("device.token.revoke", which)
        assert await live.closed() == (1008, "device token revoked")
        assert (await admin.ask("device.token.revoke", which))["error"]["message"] == (
            "unknown deviceId/role"
        )
    error = await device.refused(rig.url, auth={"deviceToken": device.token})
    assert error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"
    assert "the access of this device was revoked" in error["message"]
    error = await device.refused(rig.url)  # here, and with the secret
    assert "the access of this device was revoked" in error["message"]
    await approve(rig, error["details"]["requestId"])
    async with device.connected(rig.url):
        pass


async def test_a_device_that_keeps_another_role_is_told_which_was_revoked(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url), device.connected(rig.url, role="node", scopes=[]):
        pass
    async with connected(rig.url) as admin:
        await admin.call("device.token.revoke", {"deviceId": device.id, "role": "operator"})
    error = await device.refused(rig.url)
    assert error["details"]["reason"] == "role-upgrade"
    assert error["message"] == (
        "pairing required: the access of this device was revoked and needs a new approval"
    )


async def test_who_comes_through_an_untrusted_proxy_is_listed_as_unknown(rig: Rig) -> None:
    device = Device()
    await device.refused(rig.url, REMOTE, scopes=READ)
    (waiting,) = await pending(rig)
    assert waiting["remoteIp"] == "through a proxy (unknown)"


async def test_a_removed_device_is_forgotten_and_closed_behind_its_own_answer(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url) as live:
        answer = await live.call("device.pair.remove", {"deviceId": device.id})
        assert answer == {"deviceId": device.id}
        assert await live.closed() == (1008, "device removed")
    async with connected(rig.url) as admin:
        assert (await admin.call("device.pair.list"))["paired"] == []
        again = await admin.ask("device.pair.remove", {"deviceId": device.id})
        assert again["error"]["message"] == "unknown deviceId"
    error = await device.refused(rig.url, REMOTE)
    assert error["details"]["reason"] == "not-paired"


async def test_a_restart_keeps_who_is_paired_and_who_waits(tmp_path: Path) -> None:
    device, other = Device(), Device()
    async with running_gateway(tmp_path) as rig:
        async with device.connected(rig.url, scopes=READ):
            pass
        error = await other.refused(rig.url, REMOTE)
    async with running_gateway(tmp_path, token="another" * 6) as rig:
        auth = {"deviceToken": device.token}
        async with device.connected(rig.url, REMOTE, scopes=READ, auth=auth):
            pass
        async with connected(rig.url, auth={"token": "another" * 6}) as admin:
            (waiting,) = (await admin.call("device.pair.list"))["pending"]
    assert waiting["requestId"] == error["details"]["requestId"]


async def test_wrong_device_tokens_are_slowed_down_and_then_locked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.gateway.shared_secret.DELAYS", Backoff(base=0.1, cap=0.1))
    config = {"gateway": {"trustedProxies": ["127.0.0.1"]}}
    there = {"X-Forwarded-For": "198.51.100.4"}
    bogus = {"token": "wrong", "deviceToken": "bogus"}
    async with running_gateway(tmp_path, config=config) as rig:
        failures = 0
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(_fail, Device(), rig, there, bogus)
        device = Device()
        error = await device.refused(rig.url, there, auth={"token": TOKEN})
        assert error["details"]["code"] == "AUTH_RATE_LIMITED"
        assert error["details"]["recommendedNextStep"] == "wait_then_retry"
        assert error["retryable"]
        assert 0 < error["retryAfterMs"] <= 300_000
        async with device.connected(rig.url):  # this machine is not locked out
            failures += 1
        elsewhere = {"X-Forwarded-For": "198.51.100.5"}
        async with device.connected(rig.url, elsewhere, scopes=READ):
            failures += 1
    assert failures == 2


async def _fail(device: Device, rig: Rig, headers: dict[str, str], auth: dict[str, str]) -> None:
    try:
        async with dial(rig.url, additional_headers=headers) as wire:
            await device.connect(wire, auth=auth)
    except Exception:  # noqa: BLE001, S110 - it may be told after the deadline of its handshake
        pass


@pytest.mark.abuse(15)
@pytest.mark.parametrize("platform", ["darwin", "l\u0456nux", "linux-android"], ids=ascii)
async def test_a_device_that_claims_another_platform_is_approved_again(
    rig: Rig, platform: str
) -> None:
    device = Device()
    client = connect_params()["client"]
    async with device.connected(rig.url, scopes=READ):
        pass
    newer = client | {"platform": f"{client['platform'].upper()} 7.1"}
    auth = {"deviceToken": device.token}
    async with device.connected(rig.url, REMOTE, scopes=READ, auth=auth, client=newer):
        pass
    other = client | {"platform": platform}
    error = await device.refused(rig.url, REMOTE, scopes=READ, auth=auth, client=other)
    assert error["details"]["reason"] == "metadata-upgrade"
    async with connected(rig.url) as admin:
        await admin.call("device.pair.approve", {"requestId": error["details"]["requestId"]})
    async with device.connected(rig.url, REMOTE, scopes=READ, auth=auth, client=other):
        pass
