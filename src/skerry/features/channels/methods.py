"""Methods for accounts on chat platforms: their states, restarts, and messages."""

from typing import Annotated, Any, ClassVar, Final

import anyio
from msgspec.structs import replace
from pydantic import Field

from skerry.config.channels import DEFAULT
from skerry.features.channels.accounts import (
    ACCOUNT_METHODS,
    AccountParams,
    channels_of,
    unknown_account,
)
from skerry.features.channels.logins import LOGIN_METHODS
from skerry.features.channels.sent_files import copied
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import Additions, Content, Poll
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import AccountReport, Channels, ConnectionState, Reacts, capabilities
from skerry.store import Reader, Unit, outbox
from skerry.store.outbox import PartState

SENT_SECONDS: Final = 20.0
"""Seconds that `send` waits for the platform; afterwards the outbox still sends the message."""
PROBE_MS: Final = (1000, 20_000)
"""Shortest and longest (default) wait for the responses of the platforms, in milliseconds."""
LOOK_SECONDS: Final = 0.05
_MAX_PROBES: Final = 64
Key = Annotated[str, Field(min_length=1, max_length=256)]
Option = Annotated[str, Field(min_length=1, max_length=100)]


class ChannelsStatusParams(Params):
    """Parameters of `channels.status`."""

    probe: bool | None = None
    timeout_ms: Annotated[int, Field(ge=0)] = PROBE_MS[1]
    channel: Name | None = None


class TargetParams(Params):
    """Parameters of a method that sends; `to` is an id, with `direct:`, `group:` or `channel:`."""

    to: Name
    channel: Name | None = None
    account_id: Name | None = None
    thread_id: Name | None = None


class SendParams(TargetParams):
    """Parameters of `send`; a repeated key sends nothing."""

    ignored: ClassVar = {
        "gifPlayback": "The platform decides how it shows a file.",
        "forceDocument": "The platform decides how it shows a file.",
        "contentType": "The bytes of the file decide.",
        "filename": "The file keeps its name.",
        "sessionKey": "The message enters no transcript.",
    }
    refused: ClassVar = {
        "mediaUrls": "One message has one file: mediaUrl.",
        "buffer": "Files of a workspace are sent: mediaUrl.",
        "parseMode": "Messages are Markdown on every platform.",
    }

    reply_to_id: Name | None = None
    message: Annotated[str, Field(max_length=100_000)] = ""
    media_url: Annotated[str, Field(max_length=4096)] | None = None
    as_voice: bool = False
    agent_id: Name | None = None
    idempotency_key: Key
    silent: bool = False


class PollParams(TargetParams):
    """Parameters of `poll`; a repeated key sends nothing."""

    refused: ClassVar = {"isAnonymous": "The platform decides who sees the answers."}

    duration_hours: Annotated[int, Field(ge=0, le=720)] = 0
    silent: bool = False
    question: Annotated[str, Field(min_length=1, max_length=300)]
    options: Annotated[tuple[Option, ...], Field(min_length=2, max_length=12)]
    max_selections: Annotated[int, Field(ge=1, le=12)] = 1
    duration_seconds: Annotated[int, Field(ge=0, le=2_592_000)] = 0
    idempotency_key: Key


class ReactParams(TargetParams):
    """Parameters of `channels.react`; an empty emoji removes the reaction."""

    message_id: Name
    emoji: Annotated[str, Field(max_length=32)]


async def channels_status(call: Call, params: ChannelsStatusParams) -> Json:
    """Returns the platforms with an account, and the state of each account.

    With `probe` it asks each platform now.
    """
    channels = call.context.channels
    reports = channels.reports() if channels else []
    if params.channel is not None:
        reports = [report for report in reports if report.channel == params.channel]
    rows = [_row(report) for report in reports]
    if params.probe and channels is not None:
        shortest, longest = PROBE_MS
        await _probe(
            channels, rows[:_MAX_PROBES], min(max(params.timeout_ms, shortest), longest) / 1000
        )
    by_channel: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_channel.setdefault(row["channel"], []).append(row)
    labels = {report.channel: report.label for report in reports}
    meta = [{"id": name, "label": text, "detailLabel": text} for name, text in labels.items()]
    return {
        "ts": call.context.clock.now_ms(),
        "channelOrder": list(by_channel),
        "channelLabels": labels,
        "channelDetailLabels": labels,
        "channelSystemImages": {},
        "channelMeta": meta,
        "channels": {name: _summary(group) for name, group in by_channel.items()},
        "channelAccounts": by_channel,
        "channelDefaultAccountId": {
            name: group[0]["accountId"] for name, group in by_channel.items()
        },
    }


async def _probe(channels: Channels, rows: list[dict[str, Any]], seconds: float) -> None:
    async def probe(row: dict[str, Any]) -> None:
        row["probe"] = {"ok": False, "error": f"The platform did not respond in {seconds:g} s."}
        with anyio.move_on_after(seconds) as limit:
            state = await channels.probe(row["channel"], row["accountId"])
        if limit.cancelled_caught:
            return
        row |= _state(state.state, state.message, state.remedy)
        row["probe"] = {"ok": state.state is ConnectionState.CONNECTED, "name": state.name}

    async with anyio.create_task_group() as tasks:
        for row in rows:
            if row["running"]:
                tasks.start_soon(probe, row)


def _summary(rows: list[Any]) -> dict[str, Json]:
    return {
        "configured": any(row["configured"] for row in rows),
        "running": any(row["running"] for row in rows),
        "connected": any(row["connected"] for row in rows),
        "lastError": next((row["lastError"] for row in rows if row["lastError"]), None),
    }


def _row(report: AccountReport) -> dict[str, Any]:
    state = report.state
    offers = {
        name: getattr(report.offers, name)
        for name in ("edits", "reactions", "buttons", "threads", "polls")
    }
    return {
        "channel": report.channel,
        "accountId": report.account,
        "name": state.name,
        "enabled": report.is_enabled,
        "configured": state.state is not ConnectionState.NEEDS_LOGIN or report.is_enabled,
        "running": report.is_enabled,
        "lastInboundAt": report.last_inbound_at or None,
        "capabilities": {
            **offers,
            "mediaIn": report.offers.media_in,
            "mediaOut": report.offers.media_out,
        },
        **({"webhookPath": report.webhook} if report.webhook else {}),
        **({"about": state.about} if state.about else {}),
        **_state(state.state, state.message, state.remedy),
    }


def _state(state: ConnectionState, message: str, remedy: str) -> dict[str, Any]:
    return {
        "state": state.value,
        "connected": state is ConnectionState.CONNECTED,
        "lastError": message or None,
        "remedy": remedy or None,
    }


async def channels_restart(call: Call, params: AccountParams) -> Json:
    """Closes the connection of an account and opens a new one."""
    channels, account = channels_of(call), params.account_id or DEFAULT
    try:
        channels.restart(params.channel, account)
    except KeyError:
        raise unknown_account(channels, params.channel, account) from None
    return {"ok": True, "channel": params.channel, "accountId": account}


async def send(call: Call, params: SendParams) -> Json:
    """Sends a message over a platform, once for each key; waits until the platform has accepted it.

    Clients with the administration scope may attach a file of a workspace.
    """
    to = _target(call, params)
    if params.reply_to_id is not None:
        to = replace(to, quote=params.reply_to_id)
    silent = Additions(silent=params.silent)
    text = params.message if params.message.strip() else ""
    parts = [Content(cut, silent) for cut in channels_of(call).parts(to, text) if text]
    if params.media_url is not None:
        media = await copied(call, to, params.media_url, params.agent_id, voice=params.as_voice)
        parts.append(Content("", Additions(media=media, silent=params.silent)))
    if not parts:
        raise RefusedError("The message is empty.", "Pass `message`, `mediaUrl`, or both.")
    return await _deliver(call, RunId(f"send-{params.idempotency_key}"), to, parts)


async def poll(call: Call, params: PollParams) -> Json:
    """Sends a question with options, once for each key; waits for the platform."""
    to = _target(call, params)
    adapter = channels_of(call).adapter(to.channel, to.account)
    if adapter is None or not capabilities(adapter).polls:
        raise RefusedError(f"{to.channel} has no polls.", "Send a message instead.")
    if len(set(params.options)) != len(params.options):
        raise RefusedError("Two options of the poll are the same.")
    seconds = params.duration_seconds or 3600 * params.duration_hours
    poll_ = Poll(params.question, params.options, params.max_selections, seconds)
    parts = [Content(params.question, Additions(poll=poll_, silent=params.silent))]
    return await _deliver(call, RunId(f"poll-{params.idempotency_key}"), to, parts)


async def channels_react(call: Call, params: ReactParams) -> Json:
    """Sets the reaction of the account on a message, or removes it."""
    to = _target(call, params)
    to = ReplyTo(to.channel, to.account, to.peer, params.message_id, to.thread_id)
    adapter = channels_of(call).adapter(to.channel, to.account)
    if not isinstance(adapter, Reacts):
        raise RefusedError(f"{to.channel} has no reactions.")
    try:
        await adapter.react(to, params.emoji)
    except (DeliveryRefusedError, DeliveryDelayedError) as error:
        raise RefusedError(f"The reaction was not set: {error}") from error
    return {"ok": True, "channel": to.channel, "messageId": params.message_id}


async def _deliver(call: Call, run_id: RunId, to: ReplyTo, parts: list[Content]) -> Json:
    now = call.context.clock.now_ms()

    def write(unit: Unit) -> None:
        if outbox.next_block(unit, run_id) == 0:
            outbox.add(unit, run_id, 0, to, parts, now)

    await call.context.store.write(write)
    channels_of(call).wake(to)
    rows, ids = await _outcome(call, run_id)
    failed = next((row for row in rows if row.waiting.state is PartState.FAILED), None)
    if failed is not None:
        message = f"{to.channel} refused the message: {failed.error}"
        raise RefusedError(message, "See the message: skerry outbox list")
    is_sent = bool(rows) and all(row.waiting.state is PartState.SENT for row in rows)
    return {
        "runId": run_id,
        "channel": to.channel,
        "accountId": to.account,
        "to": to.peer.id,
        "messageId": ids[-1] if ids else None,
        "messageIds": ids,
        "status": "sent" if is_sent else "queued",
    }


async def _outcome(call: Call, run_id: RunId) -> tuple[list[outbox.OutboxRow], list[str]]:
    """Returns the parts and their platform ids, after at most `SENT_SECONDS`."""

    def read(reader: Reader) -> tuple[list[outbox.OutboxRow], list[str]]:
        return outbox.of_run(reader, run_id), outbox.platform_ids(reader, run_id)

    rows, ids = await call.context.store.read(read)
    with anyio.move_on_after(SENT_SECONDS):
        while any(row.waiting.state in _OPEN and not row.waiting.retry_at for row in rows):
            await anyio.sleep(LOOK_SECONDS)
            rows, ids = await call.context.store.read(read)
    return rows, ids


_OPEN: Final = frozenset({PartState.PENDING, PartState.SENDING})


def _target(call: Call, params: TargetParams) -> ReplyTo:
    """Returns the address of the receiver.

    Raises:
        RefusedError: the account does not exist.
    """
    channels = channels_of(call)
    reports = channels.reports()
    channel = params.channel or (reports[0].channel if reports else "")
    accounts = [report for report in reports if report.channel == channel]
    account = params.account_id or next((report.account for report in accounts), DEFAULT)
    if channels.adapter(channel, account) is None:
        raise unknown_account(channels, channel, account)
    kind, _, peer = params.to.partition(":")
    if kind not in set(PeerKind) or not peer:
        kind, peer = PeerKind.DIRECT, params.to
    receiver = Peer(PeerKind(kind), peer)
    return ReplyTo(ChannelId(channel), AccountId(account), receiver, "", params.thread_id)


METHODS: Final = (
    Method("channels.status", ChannelsStatusParams, channels_status),
    Method("channels.restart", AccountParams, channels_restart),
    *ACCOUNT_METHODS,
    *LOGIN_METHODS,
    Method("channels.react", ReactParams, channels_react),
    Method("send", SendParams, send),
    Method("poll", PollParams, poll),
)
