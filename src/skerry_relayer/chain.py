"""Answers the two Sui reads with which SDKs check the version of the package."""

from typing import Any, Final

import msgspec

MAX_BYTES: Final = 65_536
"""Maximum size of a request body in bytes."""

MAX_OBJECTS: Final = 50
"""Maximum number of ids in one `sui_multiGetObjects`, as on Sui."""


_DIGEST: Final = "1" * 32
"""A digest in base58: 32 zero bytes."""


class _Call(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: list[Any] = []


def answer(body: bytes, package_id: str) -> dict[str, Any]:
    """Returns the JSON-RPC answer to `body`; only the package exists, in version 1."""
    try:
        call = msgspec.json.decode(body, type=_Call)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _failure(None, -32700, "Parse error")
    match call.method, call.params:
        case "sui_getObject", [str(object_id), *_]:
            return _result(call.id, _object(object_id, package_id))
        case "sui_multiGetObjects", [list(ids), *_] if len(ids) <= MAX_OBJECTS:
            return _result(call.id, [_object(object_id, package_id) for object_id in ids])
        case (("sui_getObject" | "sui_multiGetObjects"), _):
            return _failure(call.id, -32602, "Invalid params")
        case _:
            return _failure(call.id, -32601, "Method not found")


def _object(object_id: object, package_id: str) -> dict[str, Any]:
    if object_id != package_id:
        return {"error": {"code": "notExists", "object_id": str(object_id)[:80]}}
    return {
        "data": {
            "objectId": package_id,
            "version": "1",
            "digest": _DIGEST,
            "type": "package",
            "owner": "Immutable",
        }
    }


def _result(call_id: int | str | None, result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "result": result}


def _failure(call_id: int | str | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": code, "message": message}}
