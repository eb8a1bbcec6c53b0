"""Makes and changes jobs from what clients send, and checks them (pure)."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from skerry.features.cron.errors import JobError, ScheduleError
from skerry.features.cron.jobs import (
    MAX_TEXT,
    AgentTurn,
    At,
    Cron,
    Every,
    Job,
    JobDelivery,
    JobState,
    Payload,
    Schedule,
    SystemEvent,
    Target,
)
from skerry.features.cron.schedule import checked, moment, next_time
from skerry.model.thinking import ThinkingLevel

T = TypeVar("T")
MOST_NAME: Final = 200
MOST_DESCRIPTION: Final = 2_000
MOST_SECONDS: Final = 86_400.0
_KINDS: Final[Mapping[str, type]] = {
    "at": At,
    "every": Every,
    "cron": Cron,
    "systemEvent": SystemEvent,
    "agentTurn": AgentTurn,
}
_ALLOWED_ANYWAY: Final[Mapping[str, tuple[Any, ...]]] = {
    "toolsAllow": (["*"], None),
    "lightContext": (False, None),
    "fallbacks": ([], None),
    "allowUnsafeExternalContent": (False, None),
}
"""Properties without a field here, and the values that ask for nothing."""
_OLD_DELIVERY: Final = ("deliver", "channel", "to", "bestEffortDeliver")
"""Properties of a payload that name its delivery, in version 3 of the protocol."""
_PATCHABLE: Final = frozenset(
    {"agentId", "deleteAfterRun", "delivery", "description", "enabled", "name", "payload"}
    | {"schedule", "sessionKey", "sessionTarget", "wakeMode"}
)
_THINKING: Final = ", ".join(ThinkingLevel)


def made(job_id: str, fields: Mapping[str, Any], default_agent: str, now: int) -> Job:
    """Returns a new job.

    Args:
        job_id: Its id.
        fields: Properties of `cron.add`.
        default_agent: Agent of a job that names none.
        now: Milliseconds since 1970.

    Raises:
        ScheduleError, JobError: it cannot be used; the message names the property.
    """
    fields = _modern(fields)
    schedule = _schedule(fields["schedule"])
    if isinstance(schedule, Every) and schedule.anchor_ms is None:
        schedule = replace(schedule, anchor_ms=now)
    payload = _payload(fields["payload"])
    target: Target = fields.get("sessionTarget") or _target(payload)
    delivery = fields.get("delivery")
    if delivery is None and target == "isolated":
        delivery = {"mode": "announce"}
    if isinstance(schedule, At) and moment(schedule.at) <= now:
        raise ScheduleError(f"The time {schedule.at} has passed.", "Give a time that is to come.")
    job = Job(
        id=job_id,
        name=str(fields["name"]).strip(),
        agent_id=fields.get("agentId") or default_agent,
        schedule=schedule,
        session_target=target,
        wake_mode=fields.get("wakeMode") or "now",
        payload=payload,
        created_at_ms=now,
        updated_at_ms=now,
        enabled=fields.get("enabled") is not False,
        description=fields.get("description") or None,
        session_key=fields.get("sessionKey") or None,
        delete_after_run=fields.get("deleteAfterRun"),
        delivery=None if delivery is None else _delivery(delivery),
    )
    return scheduled(_checked(job), now)


def _modern(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the properties with the delivery that older clients name in the payload."""
    payload = dict(fields["payload"])
    old = {name: payload.pop(name, None) for name in _OLD_DELIVERY}
    if fields.get("delivery") is not None or all(value is None for value in old.values()):
        return {**fields, "payload": payload}
    delivery = {"mode": "none"} if old["deliver"] is False else {"mode": "announce"}
    named = {name: value for name in ("channel", "to") if (value := old[name]) is not None}
    return {**fields, "payload": payload, "delivery": delivery | named}


def patched(job: Job, patch: Mapping[str, Any], now: int) -> Job:
    """Returns the job with the changed properties; `null` removes one.

    A payload or delivery of the same kind is changed property by property. Enabling a job forgets
    its failures.

    Raises:
        ScheduleError, JobError: the outcome cannot be used, or a property is unknown.
    """
    if unknown := sorted(patch.keys() - _PATCHABLE):
        raise JobError(
            f"A job has no property {unknown[0]!r} that can be changed.",
            f"Those are {', '.join(sorted(_PATCHABLE))}.",
        )
    changed = replace(job, updated_at_ms=now, **_changes(job, patch))
    if changed.session_target != job.session_target and "delivery" not in patch:
        isolated = changed.session_target == "isolated"
        changed = replace(changed, delivery=JobDelivery("announce") if isolated else None)
    if changed.enabled and not job.enabled:
        changed = replace(changed, state=_rested(changed.state))
    changed = _checked(changed)
    if changed.schedule != job.schedule or changed.enabled != job.enabled:
        changed = scheduled(changed, now)
    return changed


def _changes(job: Job, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a job that a patch changes."""
    changes = {
        field: patch[name]
        for name, field in _PLAIN.items()
        if name in patch and (patch[name] is not None or name in _REMOVABLE)
    }
    if patch.get("schedule") is not None:
        changes["schedule"] = _schedule(patch["schedule"])
    if patch.get("payload") is not None:
        changes["payload"] = _payload(_merged(job.payload, patch["payload"]))
    if "delivery" in patch:
        new = patch["delivery"]
        changes["delivery"] = None if new is None else _delivery(_merged(job.delivery, new))
    return changes


_PLAIN: Final[Mapping[str, str]] = {
    "agentId": "agent_id",
    "deleteAfterRun": "delete_after_run",
    "description": "description",
    "enabled": "enabled",
    "name": "name",
    "sessionKey": "session_key",
    "sessionTarget": "session_target",
    "wakeMode": "wake_mode",
}
"""Properties that are stored as they are sent, and their fields."""
_REMOVABLE: Final = frozenset({"agentId", "deleteAfterRun", "description", "sessionKey"})


def scheduled(job: Job, now: int) -> Job:
    """Returns the job with its next time.

    Raises:
        ScheduleError: the schedule cannot be used, or never is due.
    """
    following = next_time(job.schedule, job.id, job.created_at_ms, now)
    if following is None and job.enabled:
        raise ScheduleError("The time of the job has passed.", "Give it a time that is to come.")
    return replace(job, state=replace(job.state, next_run_at_ms=following))


def _rested(state: JobState) -> JobState:
    return replace(state, consecutive_errors=0, retry_at_ms=None, off_reason=None)


def _target(payload: Payload) -> Target:
    return "main" if isinstance(payload, SystemEvent) else "isolated"


def _merged(old: Payload | JobDelivery | None, new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the properties of `old` under those of `new`, where both are of one kind."""
    if old is None:
        return new
    before: dict[str, Any] = msgspec.to_builtins(old)
    for name in ("kind", "mode"):
        if name in before and new.get(name, before[name]) != before[name]:
            return new
    return {key: value for key, value in {**before, **new}.items() if value is not None}


def _schedule(value: Mapping[str, Any]) -> Schedule:
    schedule: Schedule = _converted(value, "schedule", ("at", "cron", "every"), Schedule)
    checked(schedule)
    return schedule


def _payload(value: Mapping[str, Any]) -> Payload:
    payload: Payload = _converted(value, "payload", ("agentTurn", "systemEvent"), Payload)
    return payload


def _delivery(value: Mapping[str, Any]) -> JobDelivery:
    _refuse_unknown(value, JobDelivery, "delivery", frozenset())
    try:
        return msgspec.convert(value, JobDelivery)
    except msgspec.ValidationError as error:
        raise JobError(
            f"delivery cannot be used: {error}.",
            "Give mode announce, webhook or none, and what it needs: channel, to.",
        ) from error


def _converted(value: Mapping[str, Any], what: str, kinds: tuple[str, ...], into: Any) -> Any:
    kind = value.get("kind")
    if kind not in kinds:
        raise JobError(f"{what} has the kind {kind!r}.", f"Kinds of {what}: {', '.join(kinds)}.")
    _refuse_unknown(value, _KINDS[kind], what, frozenset({"kind"}))
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        raise JobError(f"{what} cannot be used: {error}.", "Correct that property.") from error


def _refuse_unknown(value: Mapping[str, Any], kind: type, what: str, known: frozenset[str]) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(kind)} | known
    for name, property_ in value.items():
        if name not in names and property_ not in _ALLOWED_ANYWAY.get(name, (None,)):
            raise JobError(
                f"{what} has an unknown property {name!r}.",
                f"Its properties: {', '.join(sorted(names))}.",
            )


def _checked(job: Job) -> Job:
    """Returns the job if its parts go together.

    Raises:
        JobError: they do not.
    """
    for condition, message, remedy in _faults(job):
        if condition:
            raise JobError(message, remedy)
    return job


def _faults(job: Job) -> list[tuple[bool, str, str]]:
    """Returns conditions under which a job cannot be used, each with its error."""
    turn = job.payload if isinstance(job.payload, AgentTurn) else None
    text = turn.message if turn else getattr(job.payload, "text", "")
    delivery, isolated = job.delivery, job.session_target == "isolated"
    mode, to = (delivery.mode, delivery.to or "") if delivery else ("none", "")
    seconds = (turn.timeout_seconds if turn else None) or 0.0
    thinking = (turn.thinking if turn else None) or "low"
    return [
        (
            not job.name or len(job.name) > MOST_NAME,
            "The name is empty or too long.",
            "Shorten it.",
        ),
        (
            len(job.description or "") > MOST_DESCRIPTION,
            f"The description has more than {MOST_DESCRIPTION} characters.",
            "Shorten it.",
        ),
        (
            not text.strip() or len(text) > MAX_TEXT,
            "The text of the job is empty or too long.",
            f"Give up to {MAX_TEXT} characters.",
        ),
        (
            isolated != (turn is not None),
            f"A job with the target {job.session_target} has the other kind of payload.",
            "systemEvent is for the target main, agentTurn for the target isolated.",
        ),
        (
            not isolated and mode == "announce",
            "A job with the target main has a delivery.",
            "The reply goes to the owner's last chat; leave the delivery out.",
        ),
        (
            mode == "webhook" and not to.startswith(("http://", "https://")),
            f"The webhook {to!r} is not an address.",
            "Give one that begins with https://.",
        ),
        (
            mode == "announce" and bool(to) and (delivery is None or not _is_named(delivery)),
            f"The delivery names the chat {to!r} without its platform.",
            "Give the channel, such as telegram.",
        ),
        (
            mode == "announce" and not to and delivery is not None and _is_named(delivery),
            f"The delivery names the platform {delivery.channel if delivery else ''!r} alone.",
            "Give the chat as `to`, or the channel last.",
        ),
        (
            not 0 <= seconds <= MOST_SECONDS,
            f"The time limit {seconds} s is out of range.",
            "Give 0 for none, or up to 86400.",
        ),
        (
            thinking not in set(ThinkingLevel),
            f"Unknown thinking level {thinking!r}.",
            f"Levels: {_THINKING}.",
        ),
    ]


def _is_named(delivery: JobDelivery) -> bool:
    return delivery.channel not in {None, "last"}
