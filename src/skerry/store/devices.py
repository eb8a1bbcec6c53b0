"""Devices: their permissions, their tokens, and the requests that wait for approval."""

from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.store.unit import Reader, Unit

PENDING_MS: Final = 300_000
"""Time after which an unanswered request is deleted."""
MAX_PENDING: Final = 32
MAX_GRANTS: Final = 512
"""Limit on paired devices; a further one replaces the one that connected longest ago."""
MAX_TOKENS: Final = 8
"""Limit on the tokens of one device in one role: several programs may share a device key."""


class DeviceInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Description that a device sends of itself, so that people recognise it."""

    client_id: str
    client_mode: str
    platform: str
    remote_ip: str
    display_name: str | None = None
    device_family: str | None = None


class DeviceRequest(Struct, frozen=True):
    """Request of a device for a role and scopes."""

    request_id: str
    device_id: str
    role: str
    public_key: str
    scopes: tuple[str, ...]
    about: DeviceInfo
    reason: str
    """`not-paired`, `role-upgrade`, `scope-upgrade` or `metadata-upgrade`."""
    created_at: int


class DeviceGrant(Struct, frozen=True):
    """Permissions of a paired device in one role; a revoked grant is void until a new approval."""

    device_id: str
    role: str
    public_key: str
    scopes: tuple[str, ...]
    about: DeviceInfo
    created_at: int
    approved_at: int
    seen_at: int
    rotated_at: int | None = None
    revoked_at: int | None = None


_GRANT: Final = (
    "device_id, role, public_key, scopes, about,"
    " created_at, approved_at, seen_at, rotated_at, revoked_at"
)
_REQUEST: Final = "request_id, device_id, role, public_key, scopes, about, reason, created_at"
_encode = msgspec.json.encode
_about = msgspec.json.Decoder(DeviceInfo)


def find(reader: Reader, device_id: str, role: str) -> DeviceGrant | None:
    """Returns the grant of the device in the role, revoked or not."""
    row = reader.one(
        f"SELECT {_GRANT} FROM device_grant WHERE device_id = ? AND role = ?",  # noqa: S608 - constant columns
        (device_id, role),
    )
    return None if row is None else _to_grant(row)


def grants(reader: Reader, device_id: str | None = None) -> list[DeviceGrant]:
    """Returns every grant, or those of one device, the oldest first."""
    of_one = "" if device_id is None else " WHERE device_id = ?"
    rows = reader.all(
        f"SELECT {_GRANT} FROM device_grant{of_one} ORDER BY created_at, device_id, role",  # noqa: S608 - constants
        () if device_id is None else (device_id,),
    )
    return [_to_grant(row) for row in rows]


def has_token(reader: Reader, device_id: str, role: str, token: str) -> bool:
    """Returns whether the token belongs to the device in the role."""
    row = reader.one(
        "SELECT 1 FROM device_token WHERE hash = ? AND device_id = ? AND role = ?",
        (_hash(token), device_id, role),
    )
    return row is not None


def allow(unit: Unit, requested: DeviceRequest, now: int) -> DeviceGrant:
    """Adds the requested scopes to the grant of the device; a revoked grant loses its old ones."""
    before = find(unit, requested.device_id, requested.role)
    scopes = before.scopes if before is not None and before.revoked_at is None else ()
    granted = DeviceGrant(
        requested.device_id,
        requested.role,
        requested.public_key,
        tuple(dict.fromkeys((*scopes, *requested.scopes))),
        requested.about,
        before.created_at if before else now,
        approved_at=now,
        seen_at=now,
    )
    unit.execute(
        f"INSERT INTO device_grant ({_GRANT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)"  # noqa: S608 - constant columns
        " ON CONFLICT (device_id, role) DO UPDATE SET scopes = excluded.scopes,"
        " about = excluded.about, approved_at = excluded.approved_at,"
        " seen_at = excluded.seen_at, revoked_at = NULL",
        (
            granted.device_id,
            granted.role,
            granted.public_key,
            " ".join(granted.scopes),
            _encode(granted.about),
            granted.created_at,
            now,
            now,
        ),
    )
    rows = unit.all("SELECT device_id FROM device_grant ORDER BY seen_at DESC")
    for (device_id,) in rows[MAX_GRANTS:]:
        remove(unit, device_id)
    return granted


def note_connection(unit: Unit, grant: DeviceGrant, about: DeviceInfo, now: int) -> None:
    """Updates the description of the device and the time of its last connection."""
    unit.execute(
        "UPDATE device_grant SET seen_at = ?, about = ? WHERE device_id = ? AND role = ?",
        (now, _encode(about), grant.device_id, grant.role),
    )


def issue(unit: Unit, grant: DeviceGrant, token: str, now: int) -> None:
    """Adds a token to the grant; stores only its hash, and deletes those beyond `MAX_TOKENS`."""
    unit.execute(
        "INSERT INTO device_token (hash, device_id, role, issued_at) VALUES (?, ?, ?, ?)",
        (_hash(token), grant.device_id, grant.role, now),
    )
    unit.execute(
        "DELETE FROM device_token WHERE device_id = ? AND role = ? AND serial NOT IN (SELECT serial"
        " FROM device_token WHERE device_id = ? AND role = ? ORDER BY serial DESC LIMIT ?)",
        (grant.device_id, grant.role, grant.device_id, grant.role, MAX_TOKENS),
    )


def rotate(unit: Unit, grant: DeviceGrant, scopes: tuple[str, ...], token: str, now: int) -> None:
    """Replaces all tokens of the grant with this one, and sets the scopes."""
    _drop_tokens(unit, grant.device_id, grant.role)
    unit.execute(
        "UPDATE device_grant SET scopes = ?, rotated_at = ? WHERE device_id = ? AND role = ?",
        (" ".join(scopes), now, grant.device_id, grant.role),
    )
    issue(unit, grant, token, now)


def revoke(unit: Unit, grant: DeviceGrant, now: int) -> None:
    """Revokes the grant; the device can connect again only after a person approves it."""
    _drop_tokens(unit, grant.device_id, grant.role)
    unit.execute(
        "UPDATE device_grant SET revoked_at = ? WHERE device_id = ? AND role = ?",
        (now, grant.device_id, grant.role),
    )


def remove(unit: Unit, device_id: str) -> bool:
    """Deletes the device with its tokens and requests; returns whether it had a grant."""
    unit.execute("DELETE FROM device_token WHERE device_id = ?", (device_id,))
    unit.execute("DELETE FROM device_request WHERE device_id = ?", (device_id,))
    return unit.execute("DELETE FROM device_grant WHERE device_id = ?", (device_id,)) > 0


def add_request(unit: Unit, requested: DeviceRequest) -> tuple[DeviceRequest, bool]:
    """Stores the request; returns the waiting request, and whether it is new.

    A repeated request keeps its id. A request with other scopes replaces it under a new id, so that
    a person cannot approve scopes that were not shown.
    """
    _expire(unit, requested.created_at)
    row = unit.one(
        f"SELECT {_REQUEST} FROM device_request WHERE device_id = ? AND role = ?",  # noqa: S608 - constant columns
        (requested.device_id, requested.role),
    )
    if row is not None and (waiting := _to_request(row)).scopes == requested.scopes:
        return waiting, False
    unit.execute(
        f"INSERT INTO device_request ({_REQUEST}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constant columns
        " ON CONFLICT (device_id, role) DO UPDATE SET request_id = excluded.request_id,"
        " public_key = excluded.public_key, scopes = excluded.scopes, about = excluded.about,"
        " reason = excluded.reason, created_at = excluded.created_at",
        (
            requested.request_id,
            requested.device_id,
            requested.role,
            requested.public_key,
            " ".join(requested.scopes),
            _encode(requested.about),
            requested.reason,
            requested.created_at,
        ),
    )
    unit.execute(
        "DELETE FROM device_request WHERE request_id NOT IN (SELECT request_id"
        " FROM device_request ORDER BY created_at DESC,"
        " CASE WHEN request_id = ? THEN 0 ELSE 1 END LIMIT ?)",
        (requested.request_id, MAX_PENDING),
    )
    return requested, True


def requests(reader: Reader, now: int) -> list[DeviceRequest]:
    """Returns the waiting requests, the oldest first."""
    rows = reader.all(
        f"SELECT {_REQUEST} FROM device_request WHERE created_at > ? ORDER BY created_at",  # noqa: S608 - constant columns
        (now - PENDING_MS,),
    )
    return [_to_request(row) for row in rows]


def request(reader: Reader, request_id: str, now: int) -> DeviceRequest | None:
    """Returns the request if it still waits."""
    row = reader.one(
        f"SELECT {_REQUEST} FROM device_request WHERE request_id = ? AND created_at > ?",  # noqa: S608 - constant columns
        (request_id, now - PENDING_MS),
    )
    return None if row is None else _to_request(row)


def remove_request(unit: Unit, request_id: str) -> None:
    """Deletes a request that was approved or rejected."""
    unit.execute("DELETE FROM device_request WHERE request_id = ?", (request_id,))


def _drop_tokens(unit: Unit, device_id: str, role: str) -> None:
    unit.execute("DELETE FROM device_token WHERE device_id = ? AND role = ?", (device_id, role))


def _expire(unit: Unit, now: int) -> None:
    unit.execute("DELETE FROM device_request WHERE created_at <= ?", (now - PENDING_MS,))


def _hash(token: str) -> bytes:
    # A token has 256 random bits, so a fast hash is safe.
    return sha256(token.encode()).digest()


def _to_grant(row: tuple[Any, ...]) -> DeviceGrant:
    device_id, role, key, scopes, about, *times = row
    return DeviceGrant(device_id, role, key, tuple(scopes.split()), _about.decode(about), *times)


def _to_request(row: tuple[Any, ...]) -> DeviceRequest:
    request_id, device_id, role, key, scopes, about, reason, at = row
    return DeviceRequest(
        request_id, device_id, role, key, tuple(scopes.split()), _about.decode(about), reason, at
    )
