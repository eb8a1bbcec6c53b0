"""Runs: what starts one, what it ends with."""

from enum import StrEnum

import msgspec
from msgspec import Struct

from skerry.model.errors import ModelError, RequestError
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.inbound import ReplyTo
from skerry.model.message import ImageBlock, TextBlock, Usage, UserMessage
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.remedies import step
from skerry.model.rights import Rights
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel


class Purpose(StrEnum):
    """What a run is for. All but `message` begin without a person."""

    MESSAGE = "message"
    """Somebody wrote."""
    FLUSH = "flush"
    """Durable notes before a compaction."""
    COMPACTION = "compaction"
    """A summary of what was said long ago."""
    BOOT = "boot"
    """The checklist at the start of the gateway."""
    HEARTBEAT = "heartbeat"
    CRON = "cron"
    HOOK = "hook"
    SUBAGENT = "subagent"
    TEST = "test"
    """`skerry models test`."""
    EMBEDDING = "embedding"
    """Vectors for the memory; no run makes them."""


class OpeningKind(StrEnum):
    """What a message does to its conversation before it is said there."""

    NEW = "new"
    RESET = "reset"
    RESUME = "resume"
    """It brings an earlier session back."""


class Opening(Struct, frozen=True):
    """A message that begins its conversation anew, or brings an earlier session back."""

    kind: OpeningKind
    bare: bool = True
    """Whether nothing else is said with it: the gateway answers, not a model."""
    target: str = ""
    """Of an earlier session, the beginning of the id, or its place in the list; empty is the last
    one."""
    model: str | None = None
    """What the new session is to ask."""
    done: bool = False
    ended: SessionId | None = None
    """The session whose place was taken, once that is done."""


class Inline(Struct, frozen=True):
    """What the directives within a message ask for, for its run alone."""

    sent: str
    """The text with them, as it was sent."""
    settings: SessionSettings
    """What it sets stands over that of the conversation."""
    status: bool = False
    """Whether the person wants to know how the gateway does, too."""


class Expected(Struct, frozen=True):
    """What a client saw of a conversation when it sent its message."""

    session_id: str = ""
    """Also one that was reset since: the message goes to the present one of the same key."""
    present: bool = False
    """Whether it has to be the present one."""
    leaf: int | None = None
    """Number of the last entry, 0 for none; with a session, of one that it has."""


class ConversationChangedError(RequestError):
    """A message was sent to another conversation than the client shows."""

    code = "request.conversation_changed"
    remedy = "Read the conversation again, then send the message."

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"Nothing was sent to {key}: {what}.")


class RunRequest(Struct, frozen=True):
    """One run to do. The run id is the caller's idempotency key."""

    run_id: RunId
    key: SessionKey
    text: str
    timeout: float | None = None
    """Seconds; None is the configured default, 0 is no limit."""
    extra_system_prompt: str = ""
    queue_mode: QueueMode | None = QueueMode.OWN
    """What it does while another run of its session is on; None is what the session, its channel
    or the configuration says."""
    reply_to: ReplyTo | None = None
    thinking: ThinkingLevel | None = None
    """None is the configured default."""
    model: str | None = None
    """`provider/model` that this run asks; None is what the conversation has."""
    images: tuple[ImageBlock, ...] = ()
    """Come with the text, behind it."""
    origin: Origin = Origin.STRANGER
    purpose: Purpose = Purpose.MESSAGE
    opening: Opening | None = None
    rights: Rights | None = None
    """Which commands it may give; None is all to the owner, and to others those for everybody."""
    inline: Inline | None = None
    expected: Expected | None = None
    """It is accepted only where this holds."""
    scopes: tuple[str, ...] | None = None
    """Of the client's connection; None where it came over none."""

    @property
    def may(self) -> Rights:
        """Return which commands it may give."""
        if self.rights is not None:
            return self.rights
        return Rights.OWNER if self.origin is Origin.OWNER else Rights.OPEN

    def settled(self, settings: SessionSettings) -> SessionSettings:
        """Return what holds for its run in a conversation with these settings."""
        if self.model is not None:
            settings = msgspec.structs.replace(settings, model=self.model)
        return self.inline.settings.over(settings) if self.inline else settings

    @property
    def command(self) -> str:
        """Return the text in which a command may stand."""
        if self.opening is not None and self.opening.bare:
            return f"/{self.opening.kind} {self.opening.target}"
        return self.text

    def said(self, at: int) -> UserMessage:
        """Return what the person says with it, as a message of the transcript."""
        text = (TextBlock(self.text),) if self.text or not self.images else ()
        return UserMessage((*text, *self.images), at, self.origin)


class StopReason(StrEnum):
    """Why a run ended."""

    DONE = "done"
    ABORTED = "aborted"
    TIMEOUT = "timeout"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    """The gateway died in it and it could not safely run again."""


class RunFailure(msgspec.Struct, frozen=True):
    """Why a run failed: the stable code of the error and its message for people."""

    code: str
    message: str
    retryable: bool = False
    remedy: str = ""
    """The next step for a person, or empty."""
    retry_after: float | None = None
    """Seconds after which the provider wants to be asked again, where it gave them."""
    attempts: tuple[str, ...] = ()
    """Of a call of several models, each that was tried and why it failed."""

    @classmethod
    def of(cls, error: ModelError) -> "RunFailure":
        """Return the failure of a run whose model call failed with `error`."""
        text, attempts = str(error), error.attempts
        return cls(error.code, text, error.retryable, step(error), error.retry_after, attempts)


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """How a run ended; stored with the run, so that a repeated key gives the same answer."""

    run_id: RunId
    session_key: str
    session_id: SessionId
    stop_reason: StopReason
    payloads: tuple[str, ...]
    """The texts of the reply, in order. An aborted run has what was said until then."""
    provider: str
    model: str
    usage: Usage
    started_at: int
    ended_at: int
    error: RunFailure | None = None
    aborted_by: str | None = None
    """Who aborted it, where someone did."""
    joined: RunId | None = None
    """The run that its message entered and that answered it; then `payloads` is empty."""
    cut_off: bool = False
    """Whether the last response reached the most tokens that the model may say."""
    notices: tuple[str, ...] = ()
    """What a person should know of how the model was asked, told once in a conversation."""


class Compacted(Struct, frozen=True):
    """What became of a conversation that was compacted."""

    tail: int
    """Number of the entry that was written."""
    before: int
    """Tokens that the conversation had, about."""
    after: int
    kept: int
    """Messages that the model still reads as they are."""


class AdmissionStatus(StrEnum):
    """What became of a request to run."""

    ACCEPTED = "accepted"
    IN_FLIGHT = "in_flight"
    FINISHED = "finished"


class Admission(Struct, frozen=True):
    """The answer to a request to run; given only after its COMMIT."""

    key: str
    status: AdmissionStatus
    accepted_at: int
    result: RunResult | None = None
    """The stored result, when `status` is finished."""
