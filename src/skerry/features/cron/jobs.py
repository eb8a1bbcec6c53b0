"""Cron jobs in their stored and sent form: their schedules, payloads, deliveries and states.

Field names are those of the protocol: camelCase, times in milliseconds since 1970.
"""

from typing import Literal

import msgspec
from msgspec import Struct, field

MIN_EVERY_MS = 1_000
"""Minimum interval of `every`, in milliseconds."""
MAX_TEXT = 100_000
"""Maximum length of the text of a job, in characters."""

Target = Literal["main", "isolated"]
WakeMode = Literal["now", "next-heartbeat"]
Status = Literal["ok", "error", "skipped"]
DeliveryStatus = Literal["delivered", "not-delivered", "unknown", "not-requested"]


class At(Struct, frozen=True, tag_field="kind", tag="at", rename="camel"):
    """Runs once, at an ISO 8601 time; a time without a zone is UTC."""

    at: str


class Every(Struct, frozen=True, tag_field="kind", tag="every", rename="camel", omit_defaults=True):
    """Runs each `every_ms` from `anchor_ms` on, which is the creation of the job by default."""

    every_ms: int
    anchor_ms: int | None = None


class Cron(Struct, frozen=True, tag_field="kind", tag="cron", rename="camel", omit_defaults=True):
    """Runs when a cron expression of five or six fields is due."""

    expr: str
    tz: str | None = None
    """IANA name; None means the zone of the machine."""
    stagger_ms: int | None = None
    """Maximum delay; None means five minutes for jobs at the top of the hour, else none."""


Schedule = At | Every | Cron


class SystemEvent(
    Struct, frozen=True, tag_field="kind", tag="systemEvent", rename="camel", omit_defaults=True
):
    """Text for the main conversation of the agent."""

    text: str


class AgentTurn(
    Struct, frozen=True, tag_field="kind", tag="agentTurn", rename="camel", omit_defaults=True
):
    """Message that starts an isolated run."""

    message: str
    model: str | None = None
    thinking: str | None = None
    timeout_seconds: float | None = None
    """None means the limit of the agent's runs, 0 no limit."""


Payload = SystemEvent | AgentTurn


class JobDelivery(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Destination of the reply of an isolated run."""

    mode: Literal["announce", "webhook", "none"]
    channel: str | None = None
    """`last` or the name of a platform; None means `last`."""
    to: str | None = None
    """Id of the chat on the platform, or the address of a webhook."""
    account_id: str | None = None
    best_effort: bool = False


class JobState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """State of a job between its runs."""

    next_run_at_ms: int | None = None
    running_at_ms: int | None = None
    """Time at which the present run was claimed; None while no run is active."""
    last_run_at_ms: int | None = None
    last_status: Status | None = None
    last_error: str | None = None
    last_duration_ms: int | None = None
    last_delivery_status: DeliveryStatus | None = None
    consecutive_errors: int = 0
    retry_at_ms: int | None = None
    """Earliest time of the next run after a failure."""
    off_reason: str | None = None
    """Reason why the scheduler switched the job off."""


class Job(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One scheduled job."""

    id: str
    name: str
    agent_id: str
    schedule: Schedule
    session_target: Target
    wake_mode: WakeMode
    payload: Payload
    created_at_ms: int
    updated_at_ms: int
    enabled: bool = field(default_factory=lambda: True)  # sent also when it is true
    description: str | None = None
    session_key: str | None = None
    """Conversation of a main job; None means the agent's main conversation."""
    delete_after_run: bool | None = None
    delivery: JobDelivery | None = None
    state: JobState = field(default_factory=JobState)

    @property
    def deletes_itself(self) -> bool:
        """Returns true when a successful run removes the job: by default for `at`."""
        if self.delete_after_run is not None:
            return self.delete_after_run
        return isinstance(self.schedule, At)


class JobLogEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finished run in the log of a job."""

    ts: int
    job_id: str
    action: Literal["finished"] = field(default_factory=lambda: "finished")
    status: Status | None = None
    error: str | None = None
    summary: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    run_id: str | None = None
    run_at_ms: int | None = None
    due_at_ms: int | None = None
    duration_ms: int | None = None
    next_run_at_ms: int | None = None
    model: str | None = None
    provider: str | None = None
    usage: dict[str, int] | None = None
    delivery_status: DeliveryStatus | None = None
    delivery_error: str | None = None
    trigger: str | None = None
    """`due`, `missed` for a run that the gateway started late, or `manual`."""


encode = msgspec.json.encode
decode_job = msgspec.json.Decoder(Job).decode
decode_entry = msgspec.json.Decoder(JobLogEntry).decode
