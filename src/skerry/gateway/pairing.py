"""Pairing: the tokens of devices, requests for approval, and their revocation."""

import secrets
import unicodedata
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from msgspec import Struct

from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json
from skerry.policy.access import Role
from skerry.policy.decide import allows
from skerry.store import Unit, devices
from skerry.store.devices import DeviceGrant, DeviceInfo, DeviceRequest

_TOKEN_BYTES: Final = 32


class ConnectingDevice(Struct, frozen=True, kw_only=True):
    """A device that connects, with its proved identity."""

    device_id: str
    public_key: str
    role: Role
    scopes: tuple[str, ...]
    """Requested scopes."""
    about: DeviceInfo
    token: str | None
    """Presented token, unless it is the shared secret."""
    by_secret: bool
    """True when it presented the shared secret."""
    local: bool


class Paired(Struct, frozen=True):
    """An admitted device, with those of the requested scopes that it has."""

    device_id: str
    scopes: tuple[str, ...]
    token: str
    """Token that it may present next time instead of the shared secret."""
    issued_at: int


class PendingApproval(Struct, frozen=True):
    """A device that needs the approval of a person."""

    request: DeviceRequest
    revoked: bool
    """True when a person revoked its grant for this role."""


class WrongToken(Struct, frozen=True):
    """A device without the secret and without a valid token; `known`: it is paired."""

    known: bool
    revoked: bool


async def pair(
    context: GatewayContext, device: ConnectingDevice
) -> Paired | PendingApproval | WrongToken:
    """Admits the device, or stores its request and announces it to clients that may approve it."""
    now = context.clock.now_ms()
    ids = _NewIds(str(uuid4()), new_token())
    outcome, fresh = await context.store.write(lambda unit: _pair(unit, device, now, ids))
    if isinstance(outcome, PendingApproval) and fresh:
        tell(context, outcome.request.role, "requested", pending(outcome.request))
    return outcome


class _NewIds(Struct, frozen=True):
    """Ids that are made outside of the unit, which may run twice."""

    request_id: str
    token: str


def _pair(
    unit: Unit, device: ConnectingDevice, now: int, ids: _NewIds
) -> tuple[Paired | PendingApproval | WrongToken, bool]:
    grant = devices.find(unit, device.device_id, device.role)
    stands = grant is not None and grant.revoked_at is None
    revoked = grant is not None and not stands
    holds = (
        stands
        and device.token is not None
        and devices.has_token(unit, device.device_id, device.role, device.token)
    )
    if not (holds or device.by_secret):
        return WrongToken(known=stands, revoked=revoked), False
    reason = _missing(unit, device, grant)
    if reason:
        request = DeviceRequest(
            ids.request_id,
            device.device_id,
            device.role,
            device.public_key,
            device.scopes,
            device.about,
            reason,
            now,
        )
        # Only a person restores what was revoked; a token alone never gets more scopes.
        if not (device.local and device.by_secret) or revoked:
            waiting, fresh = devices.add_request(unit, request)
            return PendingApproval(waiting, revoked), fresh
        grant = devices.allow(unit, request, now)
    if grant is None:
        raise AssertionError("a device without a grant must lack something")
    devices.note_connection(unit, grant, device.about, now)
    token = device.token if holds and device.token else ids.token
    if not holds:
        devices.issue(unit, grant, token, now)
    scopes = tuple(scope for scope in device.scopes if allows(grant.scopes, scope))
    return Paired(device.device_id, scopes, token, now), False


def _missing(unit: Unit, device: ConnectingDevice, grant: DeviceGrant | None) -> str:
    """Returns the reason why the device needs approval; empty when it does not."""
    if grant is not None and grant.revoked_at is None:
        if _kind(grant.about) != _kind(device.about):
            return "metadata-upgrade"
        has_scopes = all(allows(grant.scopes, scope) for scope in device.scopes)
        return "" if has_scopes else "scope-upgrade"
    if any(issued.revoked_at is None for issued in devices.grants(unit, device.device_id)):
        return "role-upgrade"
    return "not-paired"


def _kind(about: DeviceInfo) -> tuple[str, str]:
    """Returns the kind of machine that the device reports, which its approval pins.

    Numbers are ignored: "iOS 26.1" becomes "iOS 26.2" without approval.
    """
    name = unicodedata.normalize("NFKC", about.platform).casefold()
    platform = "".join(char for char in name if not char.isdecimal() and char not in " ._-")
    return platform, about.device_family or ""


def tell(context: GatewayContext, role: str, event: str, payload: Json) -> None:
    """Sends an event about a request to the clients that may approve devices."""
    context.broadcast.send(f"device.pair.{event}", payload)
    if role == Role.NODE:
        context.broadcast.send(f"node.pair.{event}", payload | {"nodeId": payload["deviceId"]})


def pending(request: DeviceRequest) -> dict[str, Json]:
    """Returns a request in the form of the wire."""
    return {
        "requestId": request.request_id,
        "deviceId": request.device_id,
        "publicKey": request.public_key,
        **_device_fields(request.about),
        "role": request.role,
        "roles": [request.role],
        "scopes": request.scopes,
        "isRepair": request.reason != "not-paired",
        "ts": request.created_at,
    }


def paired(grants: Iterable[DeviceGrant]) -> list[dict[str, Json]]:
    """Returns the devices of the grants in the form of the wire, without tokens."""
    by_id: dict[str, dict[str, Json]] = {}
    for grant in grants:
        device = by_id.get(grant.device_id)
        if device is None:
            device = by_id[grant.device_id] = {
                "deviceId": grant.device_id,
                "publicKey": grant.public_key,
                **_device_fields(grant.about),
                "role": grant.role,
                "roles": [],
                "scopes": [],
                "createdAtMs": grant.created_at,
                "approvedAtMs": grant.approved_at,
                "lastSeenAtMs": grant.seen_at,
                "tokens": [],
            }
        token: dict[str, Json] = {
            "role": grant.role,
            "scopes": grant.scopes,
            "createdAtMs": grant.created_at,
            "lastUsedAtMs": grant.seen_at,
        }
        if grant.rotated_at is not None:
            token["rotatedAtMs"] = grant.rotated_at
        if grant.revoked_at is not None:
            token["revokedAtMs"] = grant.revoked_at
        else:
            device["roles"].append(grant.role)
            device["scopes"] += [scope for scope in grant.scopes if scope not in device["scopes"]]
        device["tokens"].append(token)
    return list(by_id.values())


def new_token() -> str:
    """Returns a random token."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _device_fields(about: DeviceInfo) -> dict[str, Json]:
    fields = {
        "displayName": about.display_name,
        "platform": about.platform,
        "deviceFamily": about.device_family,
        "clientId": about.client_id,
        "clientMode": about.client_mode,
        "remoteIp": about.remote_ip,
    }
    return {key: value for key, value in fields.items() if value}
