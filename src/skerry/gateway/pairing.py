"""Pairing: what a device is let in with, who approves it, and how that is taken back."""

import secrets
import unicodedata
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from msgspec import Struct

from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json
from skerry.policy.access import Role, allows
from skerry.store import Unit, devices
from skerry.store.devices import About, Grant, Request

_TOKEN_BYTES: Final = 32


class Wish(Struct, frozen=True):
    """Role and scopes that a connection requests."""

    role: Role
    scopes: tuple[str, ...]


class Asks(Struct, frozen=True, kw_only=True):
    """A device that connects; its identity is proved."""

    device_id: str
    public_key: str
    wish: Wish
    about: About
    token: str | None
    """Token presented as its own, unless that is the shared secret."""
    by_secret: bool
    """True when it presented the shared secret."""
    local: bool


class Paired(Struct, frozen=True):
    """A device that is let in, with what it asked for and is allowed."""

    device_id: str
    scopes: tuple[str, ...]
    token: str
    """Token that it may present next time instead of the shared secret."""
    issued_at: int


class Waiting(Struct, frozen=True):
    """A device that is let in when a person approves the request."""

    request: Request
    revoked: bool
    """True when a person revoked its grant for this role."""


class WrongToken(Struct, frozen=True):
    """A device that showed neither the secret nor a token of its own; `known`: it is paired."""

    known: bool
    revoked: bool


async def meet(context: GatewayContext, asks: Asks) -> Paired | Waiting | WrongToken:
    """Lets the device in, or note that it waits, and tells those who may approve it."""
    now = context.clock.now_ms()
    names = _Names(str(uuid4()), new_token())
    outcome, fresh = await context.store.write(lambda unit: _meet(unit, asks, now, names))
    if isinstance(outcome, Waiting) and fresh:
        tell(context, outcome.request.role, "requested", pending(outcome.request))
    return outcome


class _Names(Struct, frozen=True):
    """Ids made outside the unit, which may run twice."""

    request_id: str
    token: str


def _meet(
    unit: Unit, asks: Asks, now: int, names: _Names
) -> tuple[Paired | Waiting | WrongToken, bool]:
    wish = asks.wish
    grant = devices.find(unit, asks.device_id, wish.role)
    stands = grant is not None and grant.revoked_at is None
    revoked = grant is not None and not stands
    holds = (
        stands
        and asks.token is not None
        and devices.holds(unit, asks.device_id, wish.role, asks.token)
    )
    if not (holds or asks.by_secret):
        return WrongToken(known=stands, revoked=revoked), False
    reason = _missing(unit, asks, grant)
    if reason:
        asked = Request(
            names.request_id,
            asks.device_id,
            wish.role,
            asks.public_key,
            wish.scopes,
            asks.about,
            reason,
            now,
        )
        # What was revoked comes back only by a person's word; a token alone never widens itself.
        if not (asks.local and asks.by_secret) or revoked:
            waiting, fresh = devices.ask(unit, asked)
            return Waiting(waiting, revoked), fresh
        grant = devices.allow(unit, asked, now)
    if grant is None:
        raise AssertionError("a device without a grant misses something")
    devices.see(unit, grant, asks.about, now)
    token = asks.token if holds and asks.token else names.token
    if not holds:
        devices.issue(unit, grant, token, now)
    scopes = tuple(scope for scope in wish.scopes if allows(grant.scopes, scope))
    return Paired(asks.device_id, scopes, token, now), False


def _missing(unit: Unit, asks: Asks, grant: Grant | None) -> str:
    """Returns why the device has to be approved, or nothing."""
    if grant is not None and grant.revoked_at is None:
        if _kind(grant.about) != _kind(asks.about):
            return "metadata-upgrade"
        enough = all(allows(grant.scopes, scope) for scope in asks.wish.scopes)
        return "" if enough else "scope-upgrade"
    if any(one.revoked_at is None for one in devices.grants(unit, asks.device_id)):
        return "role-upgrade"
    return "not-paired"


def _kind(about: About) -> tuple[str, str]:
    """Returns which kind of machine the device claims to be, pinned when it was approved.

    Numbers do not count: "iOS 26.1" becomes "iOS 26.2" without anybody's word.
    """
    name = unicodedata.normalize("NFKC", about.platform).casefold()
    platform = "".join(char for char in name if not char.isdecimal() and char not in " ._-")
    return platform, about.device_family or ""


def tell(context: GatewayContext, role: str, what: str, payload: Json) -> None:
    """Tells those who may pair that something happened to a request."""
    context.broadcast.send(f"device.pair.{what}", payload)
    if role == Role.NODE:
        context.broadcast.send(f"node.pair.{what}", payload | {"nodeId": payload["deviceId"]})


def pending(asked: Request) -> dict[str, Json]:
    """Returns a request as the wire has it."""
    return {
        "requestId": asked.request_id,
        "deviceId": asked.device_id,
        "publicKey": asked.public_key,
        **_said(asked.about),
        "role": asked.role,
        "roles": [asked.role],
        "scopes": asked.scopes,
        "isRepair": asked.reason != "not-paired",
        "ts": asked.created_at,
    }


def paired(grants: Iterable[Grant]) -> list[dict[str, Json]]:
    """Returns the devices of the grants as the wire has them; tokens are never told."""
    found: dict[str, dict[str, Json]] = {}
    for grant in grants:
        device = found.get(grant.device_id)
        if device is None:
            device = found[grant.device_id] = {
                "deviceId": grant.device_id,
                "publicKey": grant.public_key,
                **_said(grant.about),
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
    return list(found.values())


def new_token() -> str:
    """Returns a token that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _said(about: About) -> dict[str, Json]:
    said = {
        "displayName": about.display_name,
        "platform": about.platform,
        "deviceFamily": about.device_family,
        "clientId": about.client_id,
        "clientMode": about.client_mode,
        "remoteIp": about.remote_ip,
    }
    return {key: value for key, value in said.items() if value}
