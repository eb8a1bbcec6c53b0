"""Runs: requests, states and results."""

from enum import StrEnum
from typing import Final, Self

import msgspec
from msgspec import Struct

from skerry.model.caller import Asker
from skerry.model.errors import ModelError, RequestError
from skerry.model.ids import RunId, SessionId, SessionKey, SessionKind
from skerry.model.inbound import ReplyTo
from skerry.model.message import ImageBlock, MessageContext, TextBlock, Usage, UserMessage
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.remedies import step
from skerry.model.rights import Rights
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel


class Purpose(StrEnum):
    """Purpose of a run. All but `message` begin without a person."""

    MESSAGE = "message"
    """Message of a person."""
    FLUSH = "flush"
    """Durable notes before a compaction."""
    COMPACTION = "compaction"
    """A summary of old entries."""
    BOOT = "boot"
    """The checklist at the start of the gateway."""
    HEARTBEAT = "heartbeat"
    CRON = "cron"
    HOOK = "hook"
    SUBAGENT = "subagent"
    APPROVAL = "approval"
    """The result of a call that a person approved after its run had continued."""
    COMMAND = "command"
    """The end of a background command."""
    ANNOUNCE = "announce"
    """The end of a sub-agent, for the conversation that started it."""
    TEST = "test"
    """`skerry models test`."""
    EMBEDDING = "embedding"
    """Vectors for the memory; no run makes them."""


class OpeningKind(StrEnum):
    """Effect of a message on its conversation before the message is appended."""

    NEW = "new"
    RESET = "reset"
    RESUME = "resume"
    """Makes an earlier session the present one again."""


class SessionOpening(Struct, frozen=True):
    """A message that starts a new session of its conversation, or resumes an earlier one."""

    kind: OpeningKind
    bare: bool = True
    """True if the message has no other text: the gateway answers, not a model."""
    target: str = ""
    """Prefix of the id of an earlier session, or its number in the list; empty for the last one."""
    model: str | None = None
    """Model of the new session."""
    done: bool = False
    """True once the session was started or resumed."""
    ended: SessionId | None = None
    """The session that was replaced, once `done` is true."""


class Inline(Struct, frozen=True):
    """Directives within a message, for its run only."""

    sent: str
    """The sent text, including the directives."""
    settings: SessionSettings
    """Settings that override those of the conversation."""
    status: bool = False
    """Adds the status of the gateway to the answer."""


class ExpectedState(Struct, frozen=True):
    """State of a conversation that a client saw when it sent its message."""

    session_id: str = ""
    """Session that the client saw. If it was reset since, the message is sent to the present
    session of the same key."""
    present: bool = False
    """Requires `session_id` to be the present session."""
    leaf: int | None = None
    """Number of the last entry that the client saw, 0 for none; with `session_id`, an entry of that
    session."""


MAX_ASKED: Final = 200
"""Characters of a person's words that the entry of a message for a skill keeps beside its text."""


class SkillCall(Struct, frozen=True):
    """The skill that a message names as a command."""

    skill: str
    """Name of the skill."""
    command: str
    """Name of its command."""
    tool: str = ""
    """Tool that is called without a model; empty for a message to the model."""
    arguments: str = ""
    """Text after the command."""
    call: bytes = b""
    """Arguments of the tool as JSON, for a call that no skill makes; empty for a command."""


RESERVED_IDS: Final = (
    *("announce-", "approval-", "boot-", "command-", "cron-", "heartbeat-", "hook-", "openai-"),
    *("pairing-", "send-", "subagent-"),
)
"""Prefixes of the ids of runs that the gateway starts. A client's run must not have one: the run of
the gateway with the same id would be treated as a repetition, and would not be executed."""


class ReservedIdError(RequestError):
    """A client chose an idempotency key with a prefix that is reserved for the gateway."""

    code = "request.reserved_key"
    remedy = "Send another idempotency key, such as a UUID."

    def __init__(self, key: str) -> None:
        super().__init__(f"The idempotency key {key[:64]!r} is reserved for runs of the gateway.")


class ConversationChangedError(RequestError):
    """The conversation has changed since the client showed it."""

    code = "request.conversation_changed"
    remedy = "Read the conversation again, then send the message."

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"Nothing was sent to {key}: {reason}.")


BY_SENDER: Final = "sender"
"""Value of `aborted_by` if the message was deleted on its platform."""
BY_PARENT: Final = "parent"
"""Value of `aborted_by` if a sub-agent was stopped together with its parent."""


class ParentRun(Struct, frozen=True):
    """The run that started a sub-agent."""

    key: SessionKey
    run_id: RunId


class RunRequest(Struct, frozen=True):
    """A request to run. The run id is the caller's idempotency key."""

    run_id: RunId
    key: SessionKey
    text: str
    timeout: float | None = None
    """Seconds; None is the configured default, 0 is no limit."""
    extra_system_prompt: str = ""
    skills: tuple[str, ...] | None = None
    """Names of the skills that are offered to it; None is all."""
    queue_mode: QueueMode | None = QueueMode.OWN_RUN
    """Handling while another run of its session is active; None takes the mode of the session, its
    channel or the configuration."""
    reply_to: ReplyTo | None = None
    thinking: ThinkingLevel | None = None
    """None is the configured default."""
    model: str | None = None
    """`provider/model` of this run; None takes that of the conversation."""
    images: tuple[ImageBlock, ...] = ()
    """Images after the text of the message."""
    origin: Origin = Origin.STRANGER
    purpose: Purpose = Purpose.MESSAGE
    opening: SessionOpening | None = None
    rights: Rights | None = None
    """Commands that the message may give; None allows all to the owner, and `open` ones to
    others."""
    inline: Inline | None = None
    expected: ExpectedState | None = None
    """Condition without which the request is refused."""
    scopes: tuple[str, ...] | None = None
    """Scopes of the client's connection; None without a connection."""
    label: str = ""
    """New name of the conversation; empty keeps the present name."""
    fresh: bool = False
    """True for a run that begins a new session of its conversation, without a notice."""
    sender: tuple[str, ...] = ()
    """Typed keys of the sender on a platform, such as `id:42`, for rules on tools. Empty for a
    client of the gateway, and for a run that no message started."""
    context: MessageContext | None = None
    """Context of a platform's message."""
    behalf: tuple[Asker, ...] = ()
    """Conversations on whose behalf it was started, such as the ancestors of a sub-agent."""
    light: bool = False
    """True for a heartbeat whose prompt has only HEARTBEAT.md of the workspace."""
    text_origin: Origin | None = None
    """Origin of the text, if it differs from `origin`, which decides the rights; such as a tool."""
    parent: ParentRun | None = None
    """The run that started this one as a sub-agent; stopping its conversation stops this run
    too."""
    skill: SkillCall | None = None
    """The skill that its text names as a command, or the call of a tool that it requests."""

    @property
    def may(self) -> Rights:
        """Returns the rights to give commands."""
        if self.rights is not None:
            return self.rights
        return Rights.OWNER if self.origin is Origin.OWNER else Rights.OPEN

    @property
    def is_private(self) -> bool:
        """Returns whether only the owner takes part in the conversation.

        These are `main`, conversations that clients of the gateway named, and direct chats on
        platforms whose sender is the owner. Groups, chats of strangers in any conversation, and
        runs that other people start are not private.
        """
        from_owner = self.reply_to is None or self.origin is Origin.OWNER
        match self.key.kind:
            case SessionKind.MAIN:
                return from_owner or self.purpose in {Purpose.FLUSH, Purpose.HEARTBEAT}
            case SessionKind.DIRECT:
                return self.reply_to is not None and self.origin is Origin.OWNER
            case SessionKind.OTHER:
                named = self.reply_to is None and self.key.is_owners
                return named and self.purpose is not Purpose.BOOT
            case _:
                return False

    def settled(self, settings: SessionSettings) -> SessionSettings:
        """Returns the settings of the run in a conversation with these settings."""
        if self.model is not None:
            settings = msgspec.structs.replace(settings, model=self.model)
        return self.inline.settings.over(settings) if self.inline else settings

    @property
    def command(self) -> str:
        """Returns the text that is parsed for a command."""
        if self.opening is not None and self.opening.bare:
            return f"/{self.opening.kind} {self.opening.target}"
        return self.text

    def message(self, at: int) -> UserMessage:
        """Returns the person's text and images as a message of the transcript."""
        text = (TextBlock(self.text),) if self.text or not self.images else ()
        origin = self.text_origin or self.origin
        return UserMessage((*text, *self.images), at, origin, self.context, self._asked)

    @property
    def _asked(self) -> str:
        """Returns the beginning of the words from which the text for a skill was made."""
        if self.skill is None or self.skill.tool or self.inline is None:
            return ""
        return (self.skill.arguments or self.inline.sent)[:MAX_ASKED]


class StopReason(StrEnum):
    """Reason why a run ended."""

    DONE = "done"
    ABORTED = "aborted"
    TIMEOUT = "timeout"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    """The gateway ended during the run, and it was not safe to run it again."""


class RunFailure(msgspec.Struct, frozen=True):
    """Reason why a run failed: the stable code of the error and its message for people."""

    code: str
    message: str
    retryable: bool = False
    remedy: str = ""
    """The next step for a person, or empty."""
    retry_after: float | None = None
    """Seconds after which the provider permits another call, if it gave them."""
    attempts: tuple[str, ...] = ()
    """Models that were tried in the call, each with the reason why it failed."""

    @classmethod
    def of(cls, error: ModelError) -> "RunFailure":
        """Returns the failure of a run whose model call failed with `error`."""
        text, attempts = str(error), error.attempts
        return cls(error.code, text, error.retryable, step(error), error.retry_after, attempts)


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """Result of a run; stored with the run, so that a repeated key gives the same answer."""

    run_id: RunId
    session_key: str
    session_id: SessionId
    stop_reason: StopReason
    payloads: tuple[str, ...]
    """The texts of the reply, in order. An aborted run has the texts up to the abort."""
    provider: str
    model: str
    usage: Usage
    started_at: int
    ended_at: int
    error: RunFailure | None = None
    aborted_by: str | None = None
    """Person or client that aborted the run, if any."""
    joined: RunId | None = None
    """The run that its message entered and that answered it; then `payloads` is empty."""
    cut_off: bool = False
    """True if the last response reached the model's output limit."""
    notices: tuple[str, ...] = ()
    """Notes for the person about how the model was called, shown once in a conversation."""

    @classmethod
    def without_model(
        cls,
        run: tuple[RunId, str, SessionId],
        stop_reason: StopReason,
        times: tuple[int, int],
        error: RunFailure | None = None,
        payloads: tuple[str, ...] = (),
    ) -> Self:
        """Returns the result of a run that no model answered.

        Args:
            run: Its id, the key of its conversation and the id of its session.
            stop_reason: Reason of its end.
            times: Start and end, in milliseconds since 1970.
            error: Reason of the failure; None if it did not fail.
            payloads: The texts of the reply.

        """
        run_id, key, session_id = run
        started_at, ended_at = times
        return cls(
            run_id,
            key,
            session_id,
            stop_reason,
            payloads,
            "",
            "",
            Usage(),
            started_at,
            ended_at,
            error,
        )


class CompactionResult(Struct, frozen=True):
    """Result of the compaction of a conversation."""

    tail: int
    """Number of the written entry."""
    before: int
    """Approximate tokens of the conversation before the compaction."""
    after: int
    """Approximate tokens of the conversation after it."""
    kept_messages: int
    """Number of messages that were not summarised."""


class AdmissionStatus(StrEnum):
    """Result of a request to run."""

    ACCEPTED = "accepted"
    IN_FLIGHT = "in_flight"
    FINISHED = "finished"


class Admission(Struct, frozen=True):
    """The answer to a request to run; returned only after its COMMIT."""

    key: str
    status: AdmissionStatus
    accepted_at: int
    result: RunResult | None = None
    """The stored result, if `status` is `finished`."""
