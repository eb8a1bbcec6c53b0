"""Methods for devices: requests, paired devices, and their tokens."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Final

from pydantic import Field

from skerry.gateway import pairing
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError, missing_scope
from skerry.policy.access import Role
from skerry.policy.decide import allows
from skerry.store import Reader, Unit, devices
from skerry.store.devices import DeviceGrant, DeviceRequest


class RequestParams(Params):
    """Request to act on."""

    request_id: Name


class PairedDeviceParams(Params):
    """Device to act on."""

    device_id: Name


class NodeParams(Params):
    """Node to act on: the id of its device."""

    node_id: Name


class RevokeParams(Params):
    """Device and role to act on."""

    device_id: Name
    role: Name


class RotateParams(RevokeParams):
    """Parameters of `device.token.rotate`; scopes can only be removed."""

    scopes: Annotated[list[Name], Field(max_length=128)] | None = None


async def pair_list(call: Call, _params: NoParams) -> Json:
    """Returns the pending requests and the paired devices."""
    return await _listing(call, lambda _: True)


async def node_pair_list(call: Call, _params: NoParams) -> Json:
    """Returns the pending and the paired nodes."""
    listing = await _listing(call, lambda role: role == Role.NODE)
    for row in (*listing["pending"], *listing["paired"]):
        row["nodeId"] = row["deviceId"]
    return listing


async def _listing(call: Call, fits: Callable[[str], bool]) -> dict[str, list[dict[str, Json]]]:
    now = call.context.clock.now_ms()

    def read(reader: Reader) -> tuple[list[DeviceRequest], list[DeviceGrant]]:
        return devices.requests(reader, now), devices.grants(reader)

    waiting, grants = await call.context.store.read(read)
    return {
        "pending": [pairing.pending(request) for request in waiting if fits(request.role)],
        "paired": pairing.paired(grant for grant in grants if fits(grant.role)),
    }


async def approve(call: Call, params: RequestParams) -> Json:
    """Approves a device. The approver must hold the scopes that the device requests."""
    context = call.context
    now = context.clock.now_ms()

    def write(unit: Unit) -> tuple[DeviceRequest, list[DeviceGrant]]:
        request = _request(unit, params.request_id, now)
        _check_covers(call, request.scopes)
        devices.remove_request(unit, request.request_id)
        devices.allow(unit, request, now)
        return request, devices.grants(unit, request.device_id)

    request, grants = await context.store.write(write)
    _resolved(call, request, "approved", now)
    (device,) = pairing.paired(grants)
    return {"requestId": request.request_id, "device": device}


async def reject(call: Call, params: RequestParams) -> Json:
    """Refuses a device."""
    now = call.context.clock.now_ms()

    def write(unit: Unit) -> DeviceRequest:
        request = _request(unit, params.request_id, now)
        devices.remove_request(unit, request.request_id)
        return request

    request = await call.context.store.write(write)
    _resolved(call, request, "rejected", now)
    return {"requestId": request.request_id, "deviceId": request.device_id}


async def remove(call: Call, params: PairedDeviceParams) -> Json:
    """Removes a device and closes its connections."""
    await _remove(call, params.device_id.lower())
    return {"deviceId": params.device_id.lower()}


async def node_remove(call: Call, params: NodeParams) -> Json:
    """Removes a node and closes its connections."""
    await _remove(call, params.node_id.lower())
    return {"nodeId": params.node_id.lower()}


async def _remove(call: Call, device_id: str) -> None:
    def write(unit: Unit) -> None:
        for grant in devices.grants(unit, device_id):
            _check_covers(call, grant.scopes)
        if not devices.remove(unit, device_id):
            raise RefusedError("unknown deviceId")

    await call.context.store.write(write)
    _dismiss(call, device_id, None, "device removed")


async def rotate(call: Call, params: RotateParams) -> Json:
    """Creates a new token of a device in a role; revokes earlier ones and their connections."""
    now = call.context.clock.now_ms()
    token = pairing.new_token()

    def write(unit: Unit) -> DeviceGrant:
        grant = _grant(unit, params)
        scopes = grant.scopes if params.scopes is None else tuple(dict.fromkeys(params.scopes))
        beyond = [scope for scope in scopes if not allows(grant.scopes, scope)]
        if beyond:
            message = f"the device was not approved for {', '.join(beyond)}"
            raise RefusedError(message)
        _check_covers(call, grant.scopes)
        devices.rotate(unit, grant, scopes, token, now)
        return _grant(unit, params)

    grant = await call.context.store.write(write)
    _dismiss(call, grant.device_id, grant.role, "device token rotated", but=call.connection_id)
    return {
        "deviceId": grant.device_id,
        "role": grant.role,
        "token": token,
        "tokenDelivery": "in-band",
        "scopes": grant.scopes,
        "rotatedAtMs": now,
    }


async def revoke(call: Call, params: RevokeParams) -> Json:
    """Revokes a role of a device until a new approval, and closes its connections."""
    now = call.context.clock.now_ms()

    def write(unit: Unit) -> DeviceGrant:
        grant = _grant(unit, params)
        _check_covers(call, grant.scopes)
        devices.revoke(unit, grant, now)
        return grant

    grant = await call.context.store.write(write)
    _dismiss(call, grant.device_id, grant.role, "device token revoked")
    return {"deviceId": grant.device_id, "role": grant.role, "revokedAtMs": now}


def _request(reader: Reader, request_id: str, now: int) -> DeviceRequest:
    request = devices.request(reader, request_id, now)
    if request is None:
        raise RefusedError("unknown requestId")
    return request


def _grant(reader: Reader, params: RevokeParams) -> DeviceGrant:
    device = devices.find(reader, params.device_id.lower(), params.role)
    if device is None or device.revoked_at is not None:
        raise RefusedError("unknown deviceId/role")
    return device


def _check_covers(call: Call, scopes: Sequence[str]) -> None:
    """Refuses scopes that the caller does not hold."""
    for scope in scopes:
        if not allows(call.scopes, scope):
            raise RefusedError.of(missing_scope(scope), None)


def _resolved(call: Call, request: DeviceRequest, decision: str, now: int) -> None:
    payload = {
        "requestId": request.request_id,
        "deviceId": request.device_id,
        "decision": decision,
        "ts": now,
    }
    pairing.tell(call.context, request.role, "resolved", payload)


def _dismiss(call: Call, device_id: str, role: str | None, reason: str, *, but: str = "") -> None:
    """Closes the device's connections; its own connection only after the response."""

    def dismiss() -> None:
        call.context.clients.dismiss(device_id, reason, role=role, but=but)

    asyncio.get_running_loop().call_soon(dismiss)


METHODS: Final = (
    Method("device.pair.list", NoParams, pair_list),
    Method("device.pair.approve", RequestParams, approve),
    Method("device.pair.reject", RequestParams, reject),
    Method("device.pair.remove", PairedDeviceParams, remove),
    Method("device.token.rotate", RotateParams, rotate),
    Method("device.token.revoke", RevokeParams, revoke),
    Method("node.pair.list", NoParams, node_pair_list),
    Method("node.pair.approve", RequestParams, approve),
    Method("node.pair.reject", RequestParams, reject),
    Method("node.pair.remove", NodeParams, node_remove),
)
