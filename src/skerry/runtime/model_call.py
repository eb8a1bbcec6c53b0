"""The model of one run: calls one candidate after another until one answers, and shows its text.

A failure of the conversation itself (too long, a request that was refused as such) is nobody's
fault whom another candidate could stand in for: it ends the call at once and cools nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from skerry.model.errors import (
    ModelAuthError,
    ModelEmptyReplyError,
    ModelError,
    ModelNotFoundError,
    ModelOverflowError,
    ModelsFailedError,
    ModelUnavailableError,
)
from skerry.model.event import LoopEvent, MessageUpdate, MessageWithdrawn, ThinkingUpdate
from skerry.model.message import (
    AssistantMessage,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    Usage,
    storable,
)
from skerry.model.run import RunFailure
from skerry.ports.model import ModelInfo, ModelReply, ModelRequest, Models, ReplyListener
from skerry.ports.model_candidates import (
    ABORTED,
    OWN_FAULT,
    Accounts,
    CallTarget,
    Candidates,
    FailedAttempt,
    ModelCallEnded,
    ModelCandidate,
)
from skerry.replies.shaping import Shaper, Show, named, without_nul, without_thoughts
from skerry.replies.tags import ReplyMarks
from skerry.runtime.continuation import Seam, joined

logger = logging.getLogger(__name__)

Ask = Callable[[ModelCandidate], Awaitable[ModelReply]]


class Failover:
    """Finds who answers the calls of one run; who answered last is asked first again."""

    def __init__(self, models: Models, target: CallTarget, accounts: Accounts) -> None:
        self._models = models
        self._accounts = accounts
        self.target = target
        """Request for the first call."""
        self._tries: Candidates | None = None
        self.current: ModelCandidate | None = None
        """Candidate that was called last."""
        self.missing: FailedAttempt | None = None
        """Requested model that is not available, if another answered in its place."""
        self._spent = Usage()

    @property
    def provider(self) -> str:
        """Returns the provider that was asked, or nothing when none could be."""
        return self.current.model.provider if self.current else ""

    @property
    def model(self) -> str:
        """Returns the model that was asked, or nothing when none could be."""
        return self.current.model.id if self.current else ""

    def spend(self, usage: Usage) -> None:
        """Counts tokens of the present call that no reply reports."""
        self._spent += usage

    async def call(self, ask: Ask, withdraw: Callable[[], None]) -> ModelReply:
        """Returns the first whole answer to `ask`, with its price.

        Args:
            ask: Asks one candidate.
            withdraw: Takes back what a candidate said before it failed, when another is asked.

        Raises:
            ModelError: of the only candidate, or of a conversation that nobody can take.
            ModelsFailedError: several were tried, and all failed.
            BudgetError: what may be used today is used up; only the first call is refused.
        """
        if self._tries is None:
            self._accounts.allow(self.target)
            self._tries = self._models.tries(self.target)
        is_retry = False
        while True:
            candidate = await self._tries.next()
            if candidate is None:
                raise _failed(self._tries)
            if is_retry:
                withdraw()
            is_retry = True
            self.current = candidate
            try:
                reply = await self._call_one(self._tries, candidate, ask)
            except OWN_FAULT:
                raise
            except ModelError as error:
                logger.warning("%s failed: %s", _named(candidate), error)
            else:
                self.missing = self.missing or _missing_model(self._tries, self.target.reference)
                return reply

    async def _call_one(self, tries: Candidates, candidate: ModelCandidate, ask: Ask) -> ModelReply:
        """Returns the answer of one candidate. Its end is noted and booked, however it comes."""
        clock, model = asyncio.get_running_loop().time, candidate.model
        call_id = self._accounts.begin(candidate, self.target)
        begin = clock()
        self._spent = Usage()
        failure: RunFailure | None = ABORTED
        try:
            reply = await ask(candidate)
            self._spent += reply.usage
            if not reply.tool_calls and not reply.text.strip():
                raise _empty_reply(model, reply.usage)
        except ModelError as error:
            failure = RunFailure(error.code, str(error), error.retryable)
            tries.ended(candidate, error)
            raise
        else:
            failure = None
            tries.ended(candidate, None)
            return replace(reply, usage=model.cost.of(reply.usage))
        finally:
            if failure is ABORTED:
                tries.released(candidate)
            self._accounts.book(
                ModelCallEnded(
                    model.provider,
                    model.id,
                    candidate.profile,
                    usage=model.cost.of(self._spent),
                    priced=model.cost.known,
                    seconds=clock() - begin,
                    error=failure,
                    target=self.target,
                    call_id=call_id,
                )
            )


def _failed(tries: Candidates) -> ModelError:
    """Returns the error of a call that nobody answered."""
    attempts = tries.attempts
    if len(attempts) == 1:
        return attempts[0].error
    if not attempts:
        return ModelUnavailableError("No model can be called.")
    failed = ModelsFailedError([str(attempt) for attempt in attempts])
    errors = [attempt.error for attempt in attempts]
    own = [error.remedy for error in errors if isinstance(error, ModelAuthError) and error.remedy]
    failed.remedy = " ".join(dict.fromkeys(own)) or failed.remedy
    failed.retry_after = min(
        (error.retry_after for error in errors if error.retry_after is not None), default=None
    )
    return failed


def _missing_model(tries: Candidates, reference: str | None) -> FailedAttempt | None:
    """Returns the attempt at the wanted model, where nobody has that model (any more)."""
    for attempt in tries.attempts:
        missing = isinstance(attempt.error, (ModelUnavailableError, ModelNotFoundError))
        if missing and reference in {attempt.model, f"{attempt.model}@{attempt.profile}"}:
            return attempt
    return None


def _named(candidate: ModelCandidate) -> str:
    ref = candidate.model.ref
    return f"{ref}@{candidate.profile}" if candidate.profile else ref


def _empty_reply(model: ModelInfo, usage: Usage) -> ModelError:
    """Returns why a response is empty: z.ai tells a full window by its count of tokens alone."""
    if usage.input + usage.cache_read + usage.cache_write > model.context_window:
        return ModelOverflowError(f"The conversation is too long for {model.ref}.")
    return ModelEmptyReplyError(f"{model.ref} answered nothing.")


class ResponseDraft:
    """The present, or interrupted, response as a person reads it."""

    def __init__(self, show: Show = named) -> None:
        """Begins with an empty text; `show` says what stands for a file that the model names."""
        self._show = show
        self.pieces: list[str] = []
        self.shaper = Shaper(show=show)

    @property
    def text(self) -> str:
        """Returns the text that was sent to people."""
        return "".join(self.pieces)

    @property
    def marks(self) -> ReplyMarks:
        """Returns how the model wants it sent."""
        return self.shaper.marks

    def begin(self, think: Callable[[str], None], resumed: str = "") -> None:
        """Begins another response, behind what a person has of it already."""
        self.pieces = [resumed] if resumed else []
        self.shaper = Shaper(think, self._show)


class ModelCall:
    """The model of one run. Keeps what it says, so that a cancelled call leaves its text behind.

    The model is chosen at the first call, so that a machine without one fails like a model does.
    When one fails, `Failover` finds who answers in its place.
    """

    def __init__(
        self,
        failover: Failover,
        emit: Callable[[LoopEvent], None],
        now_ms: Callable[[], int],
        draft: "ResponseDraft | None" = None,
    ) -> None:
        """Makes the model of a run.

        Args:
            failover: Finds who answers.
            emit: Hears what is said, as a person reads it.
            now_ms: The time.
            draft: Takes what is said of the present response; others may read it.

        """
        self._failover = failover
        self._emit = emit
        self._now_ms = now_ms
        self.draft = draft or ResponseDraft()
        self.draft.begin(self._on_thinking)
        self._thoughts: list[str] = []
        self.resumed = ""
        """Text of the response that was sent before a restart."""
        self._seam: Seam | None = None
        """Only behind what was said before a restart."""
        self._listener = ReplyListener(self._on_text, self._on_thinking, self._note, failover.spend)
        self.notes: dict[str, None] = {}
        """Notes for the person about how models were called, in order."""
        self.missing_note = ""
        """Note on a requested model that is not available; empty if it is."""
        self.usage = Usage()
        """Usage of all calls so far."""
        self.failure: RunFailure | None = None
        """Failure of the last response."""

    @property
    def reference(self) -> str | None:
        """Returns the model that is asked for, if one is."""
        return self._failover.target.reference

    @reference.setter
    def reference(self, reference: str | None) -> None:
        """Asks for another model; counts until the first call."""
        if reference != self._failover.target.reference:
            self._failover.target = self._failover.target.of(reference)

    @property
    def provider(self) -> str:
        """Returns the provider that was asked, or nothing when none could be."""
        return self._failover.provider

    @property
    def model(self) -> str:
        """Returns the model that was asked, or nothing when none could be."""
        return self._failover.model

    async def respond(
        self, ask: Callable[[ModelInfo], Awaitable[ModelRequest]]
    ) -> AssistantMessage:
        """Returns the response; one that failed has stop reason `error` and its partial text."""
        self._begin_response()
        self.failure = None

        async def complete(candidate: ModelCandidate) -> ModelReply:
            request = await ask(candidate.model)
            reply = await candidate.provider.complete(request, self._listener)
            return without_thoughts(without_nul(reply))

        try:
            reply = await self._failover.call(complete, self._withdraw)
        except ModelError as error:
            logger.warning("no model answered: %s", " | ".join(error.attempts) or error)
            self.failure = RunFailure.of(error)
            return self.broken_off("error", str(error))
        missing = self._failover.missing
        if missing is not None:
            answering = f"{self.provider}/{self.model} answered."
            self.missing_note = f"{missing.model} cannot be used: {missing.error} {answering}"
        self._flush_text(cut=False)
        content = joined(self.resumed, reply.content) if self.resumed else reply.content
        self.resumed = ""
        self._begin_response()
        self.usage += reply.usage
        return self._message(content, reply.stop_reason, reply.usage)

    def take_up(self, done: Iterable[Message], sent: str = "") -> None:
        """Counts what earlier responses of the run used; continues behind the last one's text.

        The model is shown `said` as the beginning of its answer: see `resuming`.
        """
        for message in done:
            if isinstance(message, AssistantMessage):
                self.usage += message.usage
        self.resumed = sent
        self._begin_response()

    def gateway_message(self, text: str) -> AssistantMessage:
        """Returns a message of the gateway in the model's place."""
        before = f"{self.resumed.rstrip()}\n\n" if self.resumed else ""
        return self._message((TextBlock(before + text),), "stop", Usage())

    def broken_off(self, stop_reason: str, error: str | None) -> AssistantMessage:
        """Returns a message of what was said when the response ended early."""
        self._flush_text(cut=True)
        content: list[Block] = []
        if self._thoughts:
            content.append(ThinkingBlock("".join(self._thoughts)))
        if text := self.draft.text:
            content.append(TextBlock(text))
        return self._message(tuple(content), stop_reason, Usage(), error)

    def _withdraw(self) -> None:
        """Withdraws the text of a model that failed, also with those who received it."""
        if self._thoughts or self.draft.text != self.resumed:
            self.resumed = ""
            self._emit(MessageWithdrawn())
        self._begin_response()

    def _begin_response(self) -> None:
        self.draft.begin(self._on_thinking, self.resumed)
        self._thoughts.clear()
        self._seam = Seam(self.resumed) if self.resumed else None

    def _message(
        self, content: tuple[Block, ...], stop_reason: str, usage: Usage, error: str | None = None
    ) -> AssistantMessage:
        current = self._failover.current
        api = current.provider.api if current else ""
        return AssistantMessage(
            content, api, self.provider, self.model, usage, stop_reason, self._now_ms(), error
        )

    def _note(self, text: str) -> None:
        self.notes[text] = None

    def _on_text(self, delta: str) -> None:
        text = storable(delta)
        self._publish(self.draft.shaper.feed(self._seam.feed(text) if self._seam else text))

    def _flush_text(self, *, cut: bool) -> None:
        if self._seam is not None:
            self._publish(self.draft.shaper.feed(self._seam.end()))
        self._publish(self.draft.shaper.end(cut=cut))

    def _publish(self, text: str) -> None:
        if text:
            self.draft.pieces.append(text)
            self._emit(MessageUpdate(text))

    def _on_thinking(self, delta: str) -> None:
        delta = storable(delta)
        self._thoughts.append(delta)
        self._emit(ThinkingUpdate(delta))
