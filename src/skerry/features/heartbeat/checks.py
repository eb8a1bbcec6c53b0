"""Heartbeats of one gateway: the conditions of a check, its run and its end."""

import hashlib
import logging
from typing import Any, Final

import anyio.to_thread
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.config.heartbeat import HeartbeatConfig
from skerry.features.heartbeat import tables
from skerry.features.heartbeat.rules import (
    ALL,
    PROMPT,
    REPEAT_MS,
    HeartbeatState,
    decoded,
    is_active,
    judged,
    settings,
)
from skerry.gateway.context import GatewayContext
from skerry.infra.clock import day, iso, named
from skerry.model.errors import BusyError, SkerryError, StateError
from skerry.model.ids import AccountId, AgentId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest, RunResult, StopReason
from skerry.runtime.internal_runs import EndedInternalRun, InternalRuns, RunSettlement, deliver
from skerry.store import Unit, archive, last_routes, retention, tasks, usage
from skerry.store.usage import UsageGroup
from skerry.workspace.heartbeat_file import has_work
from skerry.workspace.prompt_files import HEARTBEAT, read_text

logger = logging.getLogger(__name__)

OWNER: Final = "heartbeat"
PREVIEW_CHARS: Final = 200
BUSY_SECONDS: Final = 60.0
"""Seconds after which a busy agent is checked again."""
_NO_REPLY: Final = "NO_REPLY"


class Subject(Struct, frozen=True):
    """Agent and start time of a check, stored with its run."""

    agent: str
    began: int


class Heartbeats(Struct):
    """Heartbeats of every agent of a gateway."""

    context: GatewayContext
    runs: InternalRuns
    _busy_until: dict[str, int] = field(default_factory=dict)

    async def look(self) -> float:
        """Runs the due checks; returns the seconds until the next one."""
        now, soonest = self.runs.now_ms(), 3600.0
        bodies = await self.context.store.read(tables.all_bodies)
        is_on = decoded(bodies.get(ALL)).enabled
        for agent, config in settings(self.context.config()).items():
            state = decoded(bodies.get(agent))
            due_at = state.ticked_at + config.every if state.ticked_at <= now else now
            due_at = max(due_at, self._busy_until.get(agent, 0))
            if due_at <= now:
                if is_on:
                    await self.check(agent, config, state, now)
                else:  # a job that waits for the next heartbeat must not wait for ever
                    await self._store(agent, replace(state, ticked_at=now), now)
                due_at = max(now + config.every, self._busy_until.get(agent, 0))
                if self._busy_until.get(agent, 0) > now:
                    due_at = self._busy_until[agent]
            soonest = min(soonest, (due_at - now) / 1000)
        return max(soonest, 0.0)

    async def check(
        self, agent: AgentId, config: HeartbeatConfig, state: HeartbeatState, now: int
    ) -> None:
        """Starts the check of an agent, or stores the reason why it calls no model."""
        key = SessionKey.main(agent)
        events = self.context.system_events.queued.get(key, ())
        reason = await self._obstacle(agent, config, state, now, has_events=bool(events))
        if reason == "requests-in-flight":
            self._busy_until[agent] = now + round(BUSY_SECONDS * 1000)
            return
        event: dict[str, Any] = {"ts": now, "status": "skipped", "reason": reason}
        ticked = replace(state, ticked_at=now)
        if reason:
            ticked = replace(ticked, last=event)
            await self._store(agent, ticked, now)
            return
        lines = "".join(f"\n- {text}" for _, text in events)
        lines_since = f"\n\nSince the last message:{lines}" if lines else ""
        text = f"{config.prompt or PROMPT}{lines_since}\nCurrent time: {iso(now)}"
        isolated = config.isolated_session
        request = RunRequest(
            RunId(f"heartbeat-{agent}-{now}"),
            SessionKey(agent, ("heartbeat",)) if isolated else key,
            text,
            timeout=config.timeout_seconds,
            model=config.model,
            origin=Origin.OWNER,
            purpose=Purpose.HEARTBEAT,
            fresh=isolated,
            light=isolated and config.light_context,
        )
        subject = msgspec.json.encode(Subject(agent, now))

        def note(unit: Unit) -> None:
            _put(unit, agent, ticked, now)

        try:
            await self.runs.start(request, OWNER, subject, note)
        except (BusyError, StateError):
            raise
        except SkerryError as error:
            logger.warning("the heartbeat of agent %s was not started: %s", agent, error)
            return
        self.runs.dispatch.reach("heartbeat.started")
        if events:
            self.context.system_events.delivered(key, events)
        self.context.signals.set("cron")

    async def _store(self, agent: AgentId, state: HeartbeatState, now: int) -> None:
        await self.context.store.write(lambda unit: _put(unit, agent, state, now))
        self.context.signals.set("cron")

    async def _obstacle(
        self,
        agent: AgentId,
        config: HeartbeatConfig,
        state: HeartbeatState,
        now: int,
        *,
        has_events: bool,
    ) -> str:
        """Returns the reason why no model is called now, or an empty string."""
        whole = self.context.config()
        hours = config.active_hours
        zone = whole.agents.defaults.user_timezone
        if hours.timezone != "user":
            zone = None if hours.timezone == "local" else hours.timezone
        if state.stopped:
            return "too-many-failures"
        if not is_active(hours, now, named(zone)):
            return "quiet-hours"
        if not has_events:
            reason = await anyio.to_thread.run_sync(self._nothing_to_do, agent)
            if reason:
                return reason
        if config.target != "none" and await self.target(agent, config) is None:
            return "no-route"
        if await self._spent(agent, now, zone) >= (config.daily_cost or float("inf")):
            return "daily-cost"
        return (
            "requests-in-flight" if self.context.dispatcher.active(SessionKey.main(agent)) else ""
        )

    def _nothing_to_do(self, agent: AgentId) -> str:
        """Returns the reason why HEARTBEAT.md has no instructions, or an empty string. Blocks."""
        file = read_text(self.context.config().workspace(agent), HEARTBEAT, self.context.records)
        if file is None:
            return "no-heartbeat-file"
        if file.problem or file.doubt:
            logger.warning(
                "HEARTBEAT.md of agent %s is not used: %s", agent, file.problem or file.doubt
            )
            return "unusable-heartbeat-file"
        return "" if has_work(file.text) else "empty-heartbeat-file"

    async def _spent(self, agent: AgentId, now: int, zone: str | None) -> float:
        """Returns the cost of the agent's heartbeats of today, in US dollars."""
        today = str(day(now, zone))
        sums = await self.context.store.read(
            lambda reader: usage.grouped(reader, UsageGroup.PURPOSE, today, today, agent)
        )
        booked = sums.get(Purpose.HEARTBEAT)
        return booked.cost if booked is not None else 0.0

    async def target(self, agent: AgentId, config: HeartbeatConfig) -> ReplyTo | None:
        """Returns the chat that receives findings, or None."""
        if config.target == "none":
            return None
        if config.target == "last":
            return await self.context.store.read(lambda reader: last_routes.last(reader, agent))
        if not config.to:
            return None
        account = AccountId(config.account_id or "default")
        peer = Peer(PeerKind.DIRECT, config.to)
        return ReplyTo(ChannelId(config.target), account, peer, "")

    async def settle(self, ended: EndedInternalRun) -> RunSettlement:
        """Returns the rows for the end of a check: its state, and the message to the owner."""
        subject = msgspec.json.decode(ended.subject, type=Subject)
        agent, now = AgentId(subject.agent), self.runs.now_ms()
        agent_config = settings(self.context.config()).get(agent)
        config = agent_config or self.context.config().agents.defaults.heartbeat
        body = await self.context.store.read(lambda reader: tables.get(reader, agent))
        state, to = decoded(body), await self.target(agent, config)
        status, reply = _judged(ended.result, config)
        state, text = _after(state, status, reply, config, now)
        event = _event(status, text, to, now, now - subject.began)
        state = replace(state, last=event)
        texts = self.runs.delivery.parts(to, text) if to is not None and text else []
        unkept = None
        if config.isolated_session and ended.result is not None and not text:
            unkept = ended.result.session_id
            await self._archive_session(agent, unkept)

        def write(unit: Unit) -> None:
            before = decoded(tables.get(unit, agent))
            tables.put(unit, agent, msgspec.json.encode(replace(state, ticked_at=before.ticked_at)))
            if to is not None:
                deliver(unit, ended.run_id, to, texts, now)
            if unkept is not None:
                retention.remove(unit, unkept)

        def after() -> None:
            self.runs.dispatch.reach("heartbeat.settled")
            self.context.broadcast.send("heartbeat", event)
            if to is not None:
                self.runs.delivery.wake(to)

        return RunSettlement(write, after)

    async def _archive_session(self, agent: AgentId, session_id: SessionId) -> None:
        """Archives the session of a check without findings, so that it can be removed."""
        key, now = SessionKey(agent, ("heartbeat",)), self.runs.now_ms()
        await self.context.store.write(lambda unit: archive.delete(unit, key, now))
        folder = self.context.config().state_dir / "agents"
        await self.context.store.read(
            lambda reader: retention.remove_file(reader, folder, session_id)
        )


def _put(unit: Unit, agent: AgentId, state: HeartbeatState, now: int) -> None:
    tables.put(unit, agent, msgspec.json.encode(state))
    tasks.note(unit, f"heartbeat.{agent}", now, "")


def _event(status: str, text: str, to: ReplyTo | None, now: int, duration: int) -> dict[str, Any]:
    """Returns the event about a check; `text` is the sent text, or empty."""
    event: dict[str, Any] = {"ts": now, "status": status, "durationMs": duration}
    if status == "sent" and not text:
        event |= {"status": "skipped", "reason": "duplicate"}
    if text:
        event["preview"] = text[:PREVIEW_CHARS]
    if to is not None and text:
        event |= {"channel": to.channel, "accountId": to.account, "to": to.peer.id}
    event["silent"] = to is None or not text
    return event


def _judged(result: RunResult | None, config: HeartbeatConfig) -> tuple[str, str]:
    """Returns the status of a check and the text for the owner."""
    if result is None or result.stop_reason is not StopReason.DONE or result.error is not None:
        error = result.error.message if result is not None and result.error else "it did not end"
        return "failed", error
    reply = "\n\n".join(payload for payload in result.payloads if payload.strip() != _NO_REPLY)
    return judged(reply, config.ack_max_chars)


def _after(
    state: HeartbeatState, status: str, text: str, config: HeartbeatConfig, now: int
) -> tuple[HeartbeatState, str]:
    """Returns the state after a check, and the text to send, or an empty string."""
    if status == "failed":
        failures = state.failures + 1
        if failures < config.max_failures:
            return replace(state, failures=failures), ""
        notice = (
            f"⚠️ Heartbeats have stopped: {failures} checks in a row failed. The last error: {text}"
            "\n\nTo start them again: `skerry heartbeat enable`"
        )
        return replace(state, failures=failures, stopped=True), notice
    state = replace(state, failures=0)
    if status != "sent":
        return state, ""
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
    if digest == state.digest and 0 <= now - state.sent_at < REPEAT_MS:
        return state, ""
    return replace(state, digest=digest, sent_at=now), text
