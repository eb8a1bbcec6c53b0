"""Methods for nodes: commands of operators, and reports of nodes."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final

import anyio
import msgspec
from pydantic import ConfigDict, Field

from skerry.features.nodes.conversation import HANDLERS
from skerry.gateway import pairing
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.idempotency import once
from skerry.gateway.method import (
    Call,
    IdempotencyKey,
    Method,
    Name,
    NoParams,
    OnceParams,
    Params,
    RefusedError,
    missing_scope,
)
from skerry.gateway.nodes import MAX_INVOCATIONS, ConnectedNode
from skerry.infra.untrusted_json import UNREADABLE
from skerry.policy.access import ADMIN, Role
from skerry.policy.decide import allows
from skerry.store import devices

TIMEOUT_MS: Final = 30_000
LONGEST_MS: Final = 600_000
MAX_INVENTORY: Final = 262_144
"""Maximum size of an inventory of a node, in bytes of JSON."""
_EXECUTES: Final = "system."
"""Prefix of commands that run programs on the node and need the admin scope."""

PayloadText = Annotated[str, Field(max_length=25_000_000)]


class DescribeParams(Params):
    """Node to describe: the id of its device."""

    node_id: Name


class InvokeParams(OnceParams):
    """Parameters of `node.invoke`; `timeoutMs` 0 is the default of 30 s."""

    ignored: ClassVar = dict.fromkeys(
        (
            "sessionKey",
            "turnSourceChannel",
            "turnSourceTo",
            "turnSourceAccountId",
            "turnSourceThreadId",
        ),
        "A node receives the command without its conversation.",
    )

    node_id: Name
    command: Name
    idempotency_key: IdempotencyKey
    params: Any = None
    timeout_ms: Annotated[int, Field(ge=0, le=LONGEST_MS)] = 0


class ResultParams(Params):
    """Parameters of `node.invoke.result`: the result of a command of `node.invoke.request`."""

    id: Name
    node_id: Name
    ok: bool
    payload: Any = None
    payload_json: PayloadText | None = Field(default=None, alias="payloadJSON")
    error: Annotated[dict[str, Any], Field(max_length=64)] | None = None


class EventParams(Params):
    """Parameters of `node.event`."""

    event: Name
    payload: Any = None
    payload_json: PayloadText | None = Field(default=None, alias="payloadJSON")


class InventoryParams(Params):
    """Inventory of a node; the node defines its form."""

    model_config = ConfigDict(extra="allow")


async def node_list(call: Call, _params: NoParams) -> Json:
    """Returns the paired and connected nodes."""
    return {"ts": call.context.clock.now_ms(), "nodes": list((await _nodes(call)).values())}


async def describe(call: Call, params: DescribeParams) -> Json:
    """Describes a node."""
    node = (await _nodes(call)).get(params.node_id)
    if node is None:
        raise RefusedError("unknown nodeId")
    return {"ts": call.context.clock.now_ms(), **node}


async def _nodes(call: Call) -> dict[str, dict[str, Json]]:
    grants = await call.context.store.read(devices.grants)
    active = [grant for grant in grants if grant.role == Role.NODE and grant.revoked_at is None]
    rows: dict[str, dict[str, Json]] = {}
    for device in pairing.paired(active):
        keep = ("displayName", "platform", "deviceFamily", "remoteIp")
        about = {key: device[key] for key in keep if key in device}
        lists: Json = {"caps": [], "commands": []}
        rows[device["deviceId"]] = {
            "nodeId": device["deviceId"],
            **about,
            **lists,
            "paired": True,
            "connected": False,
        }
    for node in call.context.nodes.all():
        state = {"paired": True, "connected": True, "connectedAtMs": node.connected_at}
        rows[node.node_id] = {"nodeId": node.node_id, **node.about, **node.inventory, **state}
    return rows


async def invoke(call: Call, params: InvokeParams) -> Json:
    """Runs a command on a node and returns its result."""
    node = _may_invoke(call, params)
    timeout = params.timeout_ms or TIMEOUT_MS
    name, invocation = node.begin()
    try:
        # Stored before the node receives it, so that a repeat after a crash does not run it again.
        await call.context.store.write(call.effect)
        node.send("node.invoke.request", _request(params, name, timeout))
        with anyio.move_on_after(timeout / 1000) as deadline:
            await invocation.done.wait()
    finally:
        node.invocations.pop(name, None)
    if deadline.cancelled_caught:
        raise RefusedError(
            "node invoke timed out", code=ErrorCode.UNAVAILABLE, details={"code": "TIMEOUT"}
        )
    if invocation.answer is None:
        raise _not_connected(call.protocol)
    return _answer(params, invocation.answer)


def _may_invoke(call: Call, params: InvokeParams) -> ConnectedNode:
    """Returns the node after a check of its connection, its commands and the caller's scopes."""
    node = call.context.nodes.find(params.node_id)
    if node is None:
        raise _not_connected(call.protocol)
    if params.command.startswith(_EXECUTES) and not allows(call.scopes, ADMIN):
        raise RefusedError.of(missing_scope(ADMIN), None)
    if params.command not in node.commands:
        raise RefusedError(f"node command not allowed: the node does not offer {params.command!r}")
    if len(node.invocations) >= MAX_INVOCATIONS:
        details = {"code": "BUSY"}
        raise RefusedError(
            "node is busy", code=ErrorCode.UNAVAILABLE, details=details, retryable=True
        )
    return node


def _request(params: InvokeParams, name: str, timeout: int) -> Json:
    request: dict[str, Json] = {
        "id": name,
        "nodeId": params.node_id,
        "command": params.command,
        "timeoutMs": timeout,
        "idempotencyKey": params.idempotency_key,
    }
    if params.params is not None:
        request["paramsJSON"] = msgspec.json.encode(params.params).decode()
    return request


def _answer(params: InvokeParams, answer: dict[str, Json]) -> Json:
    if not answer["ok"]:
        error = answer["error"] or {}
        raise RefusedError(
            str(error.get("message") or "node invoke failed")[:2000],
            code=ErrorCode.UNAVAILABLE,
            details={"nodeError": error},
        )
    result: dict[str, Json] = {"payload": answer["payload"]}
    if answer["payload_json"] is not None:
        result["payloadJSON"] = answer["payload_json"]
        if result["payload"] is None:
            result["payload"] = _parsed(answer["payload_json"])
    return {"ok": True, "nodeId": params.node_id, "command": params.command, **result}


def _parsed(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None


def _not_connected(protocol: int) -> RefusedError:
    """Returns the refusal with the text of the protocol version."""
    if protocol == 3:  # noqa: PLR2004 - the version of the protocol
        details = {"code": "NOT_CONNECTED"}
        return RefusedError("node not connected", code=ErrorCode.UNAVAILABLE, details=details)
    return RefusedError(
        "node pairing changed while invocation was active",
        code=ErrorCode.UNAVAILABLE,
        details={"code": "PAIRING_CHANGED"},
        retryable=True,
    )


def invoke_result(call: Call, params: ResultParams) -> Json:
    """Accepts the result of a command; a late one, or one for another node, is ignored."""
    node = _self(call)
    invocation = node.invocations.get(params.id)
    if invocation is None or params.node_id != node.node_id:
        return {"ok": True, "ignored": True}
    invocation.end(
        {
            "ok": params.ok,
            "payload": params.payload,
            "payload_json": params.payload_json,
            "error": params.error,
        }
    )
    return {"ok": True}


async def event(call: Call, params: EventParams) -> Json:
    """Accepts an event of a node: a message for the agent, or a subscription to its answers."""
    node = _self(call)
    handle = HANDLERS.get(params.event)
    reason = "unsupported_event"
    if handle is not None:
        payload = params.payload
        if payload is None and params.payload_json is not None:
            payload = _parsed(params.payload_json)
        reason = await handle(call, node, payload)
    answer: dict[str, Json] = {"ok": True, "event": params.event, "handled": not reason}
    return {**answer, "reason": reason} if reason else answer


def inventory(key: str) -> Callable[[Call, InventoryParams], Json]:
    """Returns a handler that stores an inventory of a node for `node.list`."""

    def keep(call: Call, params: InventoryParams) -> Json:
        node = _self(call)
        content = params.model_extra or {}
        size = len(msgspec.json.encode(content))
        if size > MAX_INVENTORY:
            raise RefusedError(f"the inventory has {size} bytes; the limit is {MAX_INVENTORY}")
        node.inventory[key] = content
        return {"ok": True}

    return keep


def skills_bins(call: Call, _params: NoParams) -> Json:
    """Returns the programs that a node may run for skills: none, since a skill gives no rights."""
    _self(call)
    return {"bins": []}


def _self(call: Call) -> ConnectedNode:
    node = call.context.nodes.of(call.connection_id)
    if node is None:  # its device has reconnected, and this connection is closing
        raise _not_connected(call.protocol)
    return node


METHODS: Final = (
    Method("node.list", NoParams, node_list),
    Method("node.describe", DescribeParams, describe),
    Method("node.invoke", InvokeParams, once("node.invoke", invoke, joins=True)),
    Method("node.invoke.result", ResultParams, invoke_result),
    Method("node.event", EventParams, event),
    Method("node.runnerInventory.update", InventoryParams, inventory("runnerInventory")),
    Method("node.skills.update", InventoryParams, inventory("skills")),
    Method("node.pluginTools.update", InventoryParams, inventory("pluginTools")),
    Method("skills.bins", NoParams, skills_bins),
)
