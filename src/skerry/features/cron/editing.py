"""Creates and changes jobs from the properties that clients send, and checks them (pure)."""

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
from skerry.policy.urls import Refusal, parse_url

T = TypeVar("T")
MAX_NAME: Final = 200
MAX_DESCRIPTION: Final = 2_000
MAX_SECONDS: Final = 86_400.0
_KINDS: Final[Mapping[str, type]] = {
    "at": At,
    "every": Every,
    "cron": Cron,
    "systemEvent": SystemEvent,
    "agentTurn": AgentTurn,
}
_VALUES_WITHOUT_EFFECT: Final[Mapping[str, tuple[Any, ...]]] = {
    "toolsAllow": (["*"], None),
    "lightContext": (False, None),
    "fallbacks": ([], None),
    "allowUnsafeExternalContent": (False, None),
}
"""Properties that have no field, each with its values that have no effect."""
_OLD_DELIVERY: Final = ("deliver", "channel", "to", "bestEffortDeliver")
"""Properties of a payload for its delivery, in version 3 of the protocol."""
_PATCHABLE: Final = frozenset(
    {"agentId", "deleteAfterRun", "delivery", "description", "enabled", "name", "payload"}
    | {"schedule", "sessionKey", "sessionTarget", "wakeMode"}
)
_THINKING: Final = ", ".join(ThinkingLevel)


def new_job(job_id: str, fields: Mapping[str, Any], default_agent: str, now: int) -> Job:
    """Returns a new job.

    Args:
        job_id: Its id.
        fields: Properties of `cron.add`.
        default_agent: Agent of a job without one.
        now: Milliseconds since 1970.

    Raises:
        ScheduleError, JobError: a property is not valid; the message names it.
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
        raise ScheduleError(f"The time {schedule.at} has passed.", "Pass a future time.")
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
    """Moves the delivery that older clients send in the payload to its property."""
    payload = dict(fields["payload"])
    old = {name: payload.pop(name, None) for name in _OLD_DELIVERY}
    if fields.get("delivery") is not None or all(value is None for value in old.values()):
        return {**fields, "payload": payload}
    delivery = {"mode": "none"} if old["deliver"] is False else {"mode": "announce"}
    named = {name: value for name in ("channel", "to") if (value := old[name]) is not None}
    return {**fields, "payload": payload, "delivery": delivery | named}


def patched(job: Job, patch: Mapping[str, Any], now: int) -> Job:
    """Returns the job with the changed properties; `null` removes one.

    A payload or delivery of the same kind is changed property by property. Enabling a job clears
    its failures.

    Raises:
        ScheduleError, JobError: the result is not valid, or a property is unknown.
    """
    if unknown_names := sorted(patch.keys() - _PATCHABLE):
        raise JobError(
            f"The property {unknown_names[0]!r} of a job cannot be changed.",
            f"Changeable properties: {', '.join(sorted(_PATCHABLE))}.",
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
"""Properties that are stored unchanged, and their fields."""
_REMOVABLE: Final = frozenset({"agentId", "deleteAfterRun", "description", "sessionKey"})


def scheduled(job: Job, now: int) -> Job:
    """Returns the job with its next time.

    Raises:
        ScheduleError: the schedule is not valid, or is never due.
    """
    following = next_time(job.schedule, job.id, job.created_at_ms, now)
    if following is None and job.enabled:
        raise ScheduleError("The time of the job has passed.", "Pass a future time.")
    return replace(job, state=replace(job.state, next_run_at_ms=following))


def _rested(state: JobState) -> JobState:
    return replace(state, consecutive_errors=0, retry_at_ms=None, off_reason=None)


def _target(payload: Payload) -> Target:
    return "main" if isinstance(payload, SystemEvent) else "isolated"


def _merged(old: Payload | JobDelivery | None, new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the properties of `new` over those of `old`, when both have one kind."""
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
            f"delivery is not valid: {error}.",
            "Pass mode announce, webhook or none, with its channel and to.",
        ) from error


def _converted(value: Mapping[str, Any], subject: str, kinds: tuple[str, ...], into: Any) -> Any:
    kind = value.get("kind")
    if kind not in kinds:
        raise JobError(
            f"{subject} has the kind {kind!r}.", f"Kinds of {subject}: {', '.join(kinds)}."
        )
    _refuse_unknown(value, _KINDS[kind], subject, frozenset({"kind"}))
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        raise JobError(f"{subject} is not valid: {error}.", "Correct that property.") from error


def _refuse_unknown(
    value: Mapping[str, Any], kind: type, subject: str, allowed: frozenset[str]
) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(kind)} | allowed
    for name, property_ in value.items():
        if name not in names and property_ not in _VALUES_WITHOUT_EFFECT.get(name, (None,)):
            raise JobError(
                f"{subject} has an unknown property {name!r}.",
                f"Its properties: {', '.join(sorted(names))}.",
            )


def _checked(job: Job) -> Job:
    """Returns the job after a check that its parts fit together.

    Raises:
        JobError: they do not fit.
    """
    for condition, message, remedy in _faults(job):
        if condition:
            raise JobError(message, remedy)
    return job


def _faults(job: Job) -> list[tuple[bool, str, str]]:
    """Returns the conditions of an invalid job, each with its error."""
    turn = job.payload if isinstance(job.payload, AgentTurn) else None
    text = turn.message if turn else getattr(job.payload, "text", "")
    delivery, isolated = job.delivery, job.session_target == "isolated"
    mode, to = (delivery.mode, delivery.to or "") if delivery else ("none", "")
    seconds = (turn.timeout_seconds if turn else None) or 0.0
    thinking = (turn.thinking if turn else None) or "low"
    target = parse_url(to) if mode == "webhook" else None
    fault = target.reason if isinstance(target, Refusal) else ""
    return [
        (
            not job.name or len(job.name) > MAX_NAME,
            "The name is empty or too long.",
            "Shorten it.",
        ),
        (
            len(job.description or "") > MAX_DESCRIPTION,
            f"The description has more than {MAX_DESCRIPTION} characters.",
            "Shorten it.",
        ),
        (
            not text.strip() or len(text) > MAX_TEXT,
            "The text of the job is empty or too long.",
            f"Pass up to {MAX_TEXT} characters.",
        ),
        (
            isolated != (turn is not None),
            f"A job with the target {job.session_target} has the other kind of payload.",
            "Use systemEvent with the target main, agentTurn with the target isolated.",
        ),
        (
            not isolated and mode == "announce",
            "A job with the target main cannot have a delivery.",
            "Omit the delivery; the owner's last chat receives the reply.",
        ),
        (
            bool(fault),
            f"The webhook {to[:80]!r} is not an https address: {fault}",
            "Pass an address that begins with https://.",
        ),
        (
            mode == "announce" and bool(to) and (delivery is None or not _is_named(delivery)),
            f"The delivery has the chat {to!r} without its platform.",
            "Pass the channel, such as telegram.",
        ),
        (
            mode == "announce" and not to and delivery is not None and _is_named(delivery),
            f"The delivery {delivery.channel if delivery else ''!r} has no chat.",
            "Pass the chat as `to`, or the channel last.",
        ),
        (
            not 0 <= seconds <= MAX_SECONDS,
            f"The time limit {seconds} s is out of range.",
            "Pass 0 for no limit, or up to 86400.",
        ),
        (
            thinking not in set(ThinkingLevel),
            f"Unknown thinking level {thinking!r}.",
            f"Levels: {_THINKING}.",
        ),
    ]


def _is_named(delivery: JobDelivery) -> bool:
    return delivery.channel not in {None, "last"}
