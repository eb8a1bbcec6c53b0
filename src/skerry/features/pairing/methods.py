"""Methods for senders of platforms: pending requests, and the owner's decisions."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.ids import RunId
from skerry.store import Reader, Unit, outbox, sender_pairing
from skerry.store.sender_pairing import PairedSender, PairingRequest

APPROVED: Final = "My owner has approved you. Write again, and I answer."
RESOLVED: Final = "channels.pairing.resolved"
Code = Annotated[str, Field(min_length=1, max_length=32)]


class ListParams(Params):
    """Parameters of `channels.pairing.list`; without them all accounts are listed."""

    channel: Name | None = None
    account_id: Name | None = None


class DecideParams(Params):
    """Parameters of a decision about a request."""

    code: Code
    channel: Name | None = None
    account_id: Name | None = None


class ApproveParams(DecideParams):
    """Parameters of `channels.pairing.approve`."""

    ignored: ClassVar = {"bootstrapCommandOwner": "An approval does not make the sender an owner."}
    refused: ClassVar = {"requestId": "The code identifies the request."}

    notify: bool | None = None


class RemoveParams(Params):
    """Parameters of `channels.pairing.remove`."""

    channel: Name
    sender_id: Name
    account_id: Name | None = None


async def pairing_list(call: Call, params: ListParams) -> Json:
    """Returns the pending requests, and the approved and rejected senders."""
    now, account_filter = (
        call.context.clock.now_ms(),
        (params.channel or "", params.account_id or ""),
    )

    def read(reader: Reader) -> tuple[list[PairingRequest], list[PairedSender]]:
        return sender_pairing.requests(reader, now, *account_filter), sender_pairing.senders(
            reader, *account_filter
        )

    waiting, decided = await call.context.store.read(read)
    return {
        "accounts": [],
        "requests": [_request(request) for request in waiting],
        "senders": [_sender(sender) for sender in decided],
        "commandOwnerConfigured": bool(call.context.config().commands.owner_allow_from),
        "limits": {
            "pendingPerAccount": sender_pairing.MAX_PENDING,
            "ttlMs": sender_pairing.LASTS_MS,
        },
    }


async def approve(call: Call, params: ApproveParams) -> Json:
    """Lets the sender with the code write in direct chats; `notify` informs the sender."""
    return await _decide(call, params, rejected=False, notify=bool(params.notify))


async def reject(call: Call, params: DecideParams) -> Json:
    """Refuses the sender with the code: no message is read, and no further code is sent."""
    return await _decide(call, params, rejected=True, notify=False)


async def _decide(call: Call, params: DecideParams, *, rejected: bool, notify: bool) -> Json:
    context = call.context
    now, account_filter = context.clock.now_ms(), (params.channel or "", params.account_id or "")

    def write(unit: Unit) -> PairingRequest:
        request = sender_pairing.decide(
            unit, params.code, account_filter, now, "operator", rejected=rejected
        )
        if notify:
            run_id = RunId(f"pairing-approved-{request.code}-{now}")
            outbox.add(unit, run_id, 0, request.to, [APPROVED], now)
        return request

    request = await context.store.write(write)
    if notify:
        context.hurry(request.to)
    decision = "rejected" if rejected else "approved"
    _tell(call, request, decision, now)
    return {"ok": True, "decision": decision, "request": _request(request)}


async def remove(call: Call, params: RemoveParams) -> Json:
    """Removes the decision about a sender, who receives a new code at the next message."""
    now = call.context.clock.now_ms()
    sender = (params.channel, params.account_id or "default", params.sender_id)
    if not await call.context.store.write(
        lambda unit: sender_pairing.remove(unit, sender, "operator", now)
    ):
        message = f"No sender {'/'.join(sender)} was approved or rejected."
        raise RefusedError(message, "List the senders: skerry pairing list")
    payload = {
        "channel": params.channel,
        "accountId": sender[1],
        "senderId": params.sender_id,
        "decision": "removed",
        "ts": now,
    }
    call.context.broadcast.send(RESOLVED, payload)
    return {"ok": True}


def _tell(call: Call, request: PairingRequest, decision: str, now: int) -> None:
    payload = {
        "channel": request.channel,
        "accountId": request.account,
        "senderId": request.sender_id,
        "decision": decision,
        "ts": now,
    }
    call.context.broadcast.send(RESOLVED, payload)


def _request(request: PairingRequest) -> dict[str, Json]:
    return {
        "channel": request.channel,
        "accountId": request.account,
        "senderId": request.sender_id,
        "senderName": request.sender_name,
        "senderUsername": request.sender_username,
        "code": request.code,
        "createdAtMs": request.created_at,
        "lastSeenAtMs": request.seen_at,
        "expiresAtMs": request.expires_at,
    }


def _sender(sender: PairedSender) -> dict[str, Json]:
    return {
        "channel": sender.channel,
        "accountId": sender.account,
        "senderId": sender.sender_id,
        "senderName": sender.sender_name,
        "senderUsername": sender.sender_username,
        "state": "rejected" if sender.rejected else "approved",
        "decidedAtMs": sender.decided_at,
    }


METHODS: Final = (
    Method("channels.pairing.list", ListParams, pairing_list),
    Method("channels.pairing.approve", ApproveParams, approve),
    Method("channels.pairing.reject", DecideParams, reject),
    Method("channels.pairing.remove", RemoveParams, remove),
)
