"""Devices: what each may do and by which tokens it proves it; and those that wait for approval."""

from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.store.unit import Reader, Unit

PENDING_MS: Final = 300_000
"""A request that nobody answered in 5 minutes is forgotten."""
MAX_PENDING: Final = 32
MAX_GRANTS: Final = 512
"""Paired devices; one more takes the place of the one that was away longest."""
MAX_TOKENS: Final = 8
"""Tokens of one device in one role: several programs may share the key of a device."""


class DeviceInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Description that a device sends, by which people recognise it."""

    client_id: str
    client_mode: str
    platform: str
    remote_ip: str
    display_name: str | None = None
    device_family: str | None = None


class DeviceRequest(Struct, frozen=True):
    """A device that asks for a role and scopes."""

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
    """Permissions of a paired device in one role. A revoked one has none until it is approved."""

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


def holds(reader: Reader, device_id: str, role: str, token: str) -> bool:
    """Returns whether the token is one of the device's in the role."""
    row = reader.one(
        "SELECT 1 FROM device_token WHERE hash = ? AND device_id = ? AND role = ?",
        (_hash(token), device_id, role),
    )
    return row is not None


def allow(unit: Unit, wish: DeviceRequest, now: int) -> DeviceGrant:
    """Lets the device have what it asked for, beside what it has; a revoked grant starts anew."""
    before = find(unit, wish.device_id, wish.role)
    scopes = before.scopes if before is not None and before.revoked_at is None else ()
    granted = DeviceGrant(
        wish.device_id,
        wish.role,
        wish.public_key,
        tuple(dict.fromkeys((*scopes, *wish.scopes))),
        wish.about,
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


def see(unit: Unit, grant: DeviceGrant, about: DeviceInfo, now: int) -> None:
    """Notes that the device connects, and what it says of itself now."""
    unit.execute(
        "UPDATE device_grant SET seen_at = ?, about = ? WHERE device_id = ? AND role = ?",
        (now, _encode(about), grant.device_id, grant.role),
    )


def issue(unit: Unit, grant: DeviceGrant, token: str, now: int) -> None:
    """Lets the token stand for the grant; only its hash is kept, and the oldest of many goes."""
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
    """Lets only this token stand for the grant, which has these scopes from now on."""
    _drop_tokens(unit, grant.device_id, grant.role)
    unit.execute(
        "UPDATE device_grant SET scopes = ?, rotated_at = ? WHERE device_id = ? AND role = ?",
        (" ".join(scopes), now, grant.device_id, grant.role),
    )
    issue(unit, grant, token, now)


def revoke(unit: Unit, grant: DeviceGrant, now: int) -> None:
    """Takes the grant away; the device is let in again only when a person approves it."""
    _drop_tokens(unit, grant.device_id, grant.role)
    unit.execute(
        "UPDATE device_grant SET revoked_at = ? WHERE device_id = ? AND role = ?",
        (now, grant.device_id, grant.role),
    )


def remove(unit: Unit, device_id: str) -> bool:
    """Forgets the device; returns whether it was known."""
    unit.execute("DELETE FROM device_token WHERE device_id = ?", (device_id,))
    unit.execute("DELETE FROM device_request WHERE device_id = ?", (device_id,))
    return unit.execute("DELETE FROM device_grant WHERE device_id = ?", (device_id,)) > 0


def ask(unit: Unit, wish: DeviceRequest) -> tuple[DeviceRequest, bool]:
    """Keeps the request; returns the one that waits, and whether it is new.

    The same wish again is the same request. Another wish of the device takes its place under a
    new id, so that nobody approves what he has not seen.
    """
    _expire(unit, wish.created_at)
    row = unit.one(
        f"SELECT {_REQUEST} FROM device_request WHERE device_id = ? AND role = ?",  # noqa: S608 - constant columns
        (wish.device_id, wish.role),
    )
    if row is not None and (waiting := _to_request(row)).scopes == wish.scopes:
        return waiting, False
    unit.execute(
        f"INSERT INTO device_request ({_REQUEST}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constant columns
        " ON CONFLICT (device_id, role) DO UPDATE SET request_id = excluded.request_id,"
        " public_key = excluded.public_key, scopes = excluded.scopes, about = excluded.about,"
        " reason = excluded.reason, created_at = excluded.created_at",
        (
            wish.request_id,
            wish.device_id,
            wish.role,
            wish.public_key,
            " ".join(wish.scopes),
            _encode(wish.about),
            wish.reason,
            wish.created_at,
        ),
    )
    unit.execute(
        "DELETE FROM device_request WHERE request_id NOT IN (SELECT request_id"
        " FROM device_request ORDER BY created_at DESC,"
        " CASE WHEN request_id = ? THEN 0 ELSE 1 END LIMIT ?)",
        (wish.request_id, MAX_PENDING),
    )
    return wish, True


def requests(reader: Reader, now: int) -> list[DeviceRequest]:
    """Returns who waits, the oldest first."""
    rows = reader.all(
        f"SELECT {_REQUEST} FROM device_request WHERE created_at > ? ORDER BY created_at",  # noqa: S608 - constant columns
        (now - PENDING_MS,),
    )
    return [_to_request(row) for row in rows]


def request(reader: Reader, request_id: str, now: int) -> DeviceRequest | None:
    """Returns the request, if it still waits."""
    row = reader.one(
        f"SELECT {_REQUEST} FROM device_request WHERE request_id = ? AND created_at > ?",  # noqa: S608 - constant columns
        (request_id, now - PENDING_MS),
    )
    return None if row is None else _to_request(row)


def answered(unit: Unit, request_id: str) -> None:
    """Forgets a request that was approved or rejected."""
    unit.execute("DELETE FROM device_request WHERE request_id = ?", (request_id,))


def _drop_tokens(unit: Unit, device_id: str, role: str) -> None:
    unit.execute("DELETE FROM device_token WHERE device_id = ? AND role = ?", (device_id, role))


def _expire(unit: Unit, now: int) -> None:
    unit.execute("DELETE FROM device_request WHERE created_at <= ?", (now - PENDING_MS,))


def _hash(token: str) -> bytes:
    # A token has 256 random bits: a fast hash gives away nothing of it.
    return sha256(token.encode()).digest()


def _to_grant(row: tuple[Any, ...]) -> DeviceGrant:
    device_id, role, key, scopes, about, *times = row
    return DeviceGrant(device_id, role, key, tuple(scopes.split()), _about.decode(about), *times)


def _to_request(row: tuple[Any, ...]) -> DeviceRequest:
    request_id, device_id, role, key, scopes, about, reason, at = row
    return DeviceRequest(
        request_id, device_id, role, key, tuple(scopes.split()), _about.decode(about), reason, at
    )
