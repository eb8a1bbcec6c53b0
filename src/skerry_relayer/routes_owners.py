"""Answers the signed routes that list an owner's namespaces, memories and keys."""

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from .answers import reply, stamp
from .errors import ForbiddenError, RefusedError
from .gate import Admitted
from .ports import After
from .relayer import Relayer

PAGE: Final = 100
MAX_PAGE: Final = 500
_SNAPSHOT_VERSION: Final = 2
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class _Cursor(msgspec.Struct):
    updated_at: datetime
    namespace: str = ""
    id: str = ""
    snapshot_at: datetime | None = None


async def namespaces(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `GET /v1/owners/{owner}/namespaces` with a page, the least recently changed first."""
    _check_owner(admitted, request)
    cursor, limit = _position(request)
    snapshot = cursor.snapshot_at if cursor and cursor.snapshot_at else None
    after = After(cursor.updated_at, cursor.namespace) if cursor else None
    rows = await relayer.memory.namespaces(admitted.caller, after, limit + 1)
    # A walk shows each namespace once, also while writes move namespaces to its end.
    snapshot = snapshot or datetime.fromtimestamp(relayer.clock(), tz=UTC)
    rows = [row for row in rows if row.updated_at <= snapshot]
    page, has_more = rows[:limit], len(rows) > limit
    following = request.query_params.get("updated_after")
    if page:
        last = page[-1]
        following = _encode(
            {
                "updated_at": stamp(last.updated_at),
                "namespace": last.name,
                "snapshot_at": stamp(snapshot) if has_more else None,
            }
        )
    return reply(
        {
            "namespaces": [
                {
                    "id": row.id,
                    "name": row.name,
                    "memory_count": row.memory_count,
                    "storage_used": row.storage_used,
                    "updated_at": stamp(row.updated_at),
                }
                for row in page
            ],
            "next_cursor": following,
            "has_more": has_more,
            "snapshot_version": _SNAPSHOT_VERSION,
        }
    )


async def memories(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `GET /v1/owners/{owner}/memories` with a page of metadata."""
    _check_owner(admitted, request)
    cursor, limit = _position(request)
    after = After(cursor.updated_at, cursor.id) if cursor else None
    rows = await relayer.memory.memories(admitted.caller, after, limit + 1)
    page = rows[:limit]
    following = request.query_params.get("updated_after")
    if page:
        last = page[-1]
        following = _encode({"updated_at": stamp(last.updated_at), "id": last.id})
    return reply(
        {
            "memories": [
                {
                    "memory_id": row.id,
                    "namespace_id": row.namespace,
                    "blob_id": row.blob_id,
                    "created_at": stamp(row.created_at),
                    "size": row.size,
                    "agent_id": row.agent_id,
                    "package_id": row.package_id,
                    "status": row.status,
                    "end_epoch": row.end_epoch,
                    "expires_at": stamp(row.expires_at) if row.expires_at else None,
                }
                for row in page
            ],
            "next_cursor": following,
            "has_more": len(rows) > limit,
            "snapshot_version": _SNAPSHOT_VERSION,
        }
    )


async def me(_relayer: Relayer, admitted: Admitted, _request: Request) -> Response:
    """Answers `GET /v1/me`: the account of the key and what the key may use."""
    caller = admitted.caller
    return reply(
        {
            "account_id": caller.account_id,
            "owner": caller.owner,
            "label": caller.label,
            "namespaces": None if caller.namespaces is None else sorted(caller.namespaces),
        }
    )


async def agents(relayer: Relayer, admitted: Admitted, request: Request) -> Response:
    """Answers `GET /v1/owners/{owner}/agents` with the delegates of the account."""
    _check_owner(admitted, request)
    rows = await relayer.keys.delegates(admitted.caller.account_id)
    return reply(
        {
            "agents": [
                {
                    "label": row.label,
                    "sui_address": row.address,
                    "public_key": row.public_key,
                    "created_at": stamp(row.created_at),
                    "namespaces": _shown(admitted, row.namespaces),
                }
                for row in rows
            ],
            "snapshot_version": _SNAPSHOT_VERSION,
        }
    )


def _shown(admitted: Admitted, names: frozenset[str] | None) -> list[str] | None:
    """Returns the namespaces of a key, without those that the caller may not use."""
    if names is None:
        return None
    allowed = admitted.caller.namespaces
    return sorted(names if allowed is None else names & allowed)


def _check_owner(admitted: Admitted, request: Request) -> None:
    if request.path_params["owner"] != admitted.caller.owner:
        raise ForbiddenError("owner mismatch")


def _position(request: Request) -> tuple[_Cursor | None, int]:
    """Returns the cursor and the page size of a query. Raises `RefusedError`."""
    text = request.query_params.get("limit", str(PAGE))
    if not _NUMBER.fullmatch(text) or int(text) < 1:
        raise RefusedError(f"limit must be a number from 1 to {MAX_PAGE}")
    cursor = request.query_params.get("updated_after")
    return (_decode(cursor) if cursor else None), min(int(text), MAX_PAGE)


def _encode(fields: dict[str, str | None]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(fields)).decode().rstrip("=")


def _decode(text: str) -> _Cursor:
    """Returns the cursor of an earlier page; a bare RFC 3339 time is one too."""
    try:
        padded = text + "=" * (-len(text) % 4)
        cursor = msgspec.json.decode(base64.urlsafe_b64decode(padded.encode()), type=_Cursor)
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        try:
            cursor = _Cursor(datetime.fromisoformat(text))
        except ValueError:
            raise RefusedError("updated_after is not a cursor of an earlier page") from None
    if cursor.updated_at.tzinfo is None:
        raise RefusedError("updated_after is not a cursor of an earlier page")
    return cursor
