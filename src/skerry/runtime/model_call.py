"""The model calls of one run: tries one candidate after another, and publishes the text.

An error of the request (too long, or refused as invalid) would fail with every candidate: it ends
the call at once, and no candidate cools down.
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
from skerry.replies.shaping import Shaper, Show, file_placeholder, without_nul, without_thoughts
from skerry.replies.tags import ReplyMarks
from skerry.runtime.continuation import Seam, joined

logger = logging.getLogger(__name__)

Ask = Callable[[ModelCandidate], Awaitable[ModelReply]]


class Failover:
    """Finds a model for each call of one run; the model that answered last is tried first."""

    def __init__(self, models: Models, target: CallTarget, accounts: Accounts) -> None:
        self._models = models
        self._accounts = accounts
        self.target = target
        """Target of the first call."""
        self._tries: Candidates | None = None
        self.current: ModelCandidate | None = None
        """The candidate that was called last."""
        self.missing: FailedAttempt | None = None
        """Attempt at the requested model, if it is not available and another answered."""
        self._spent = Usage()

    @property
    def provider(self) -> str:
        """Returns the provider that was called last; empty if none was."""
        return self.current.model.provider if self.current else ""

    @property
    def model(self) -> str:
        """Returns the id of the model that was called last; empty if none was."""
        return self.current.model.id if self.current else ""

    def spend(self, usage: Usage) -> None:
        """Adds tokens of the present call that its reply does not report."""
        self._spent += usage

    async def call(self, ask: Ask, withdraw: Callable[[], None]) -> ModelReply:
        """Returns the first complete reply to `ask`, with its price.

        Args:
            ask: Calls one candidate.
            withdraw: Withdraws the text of a failed candidate, before another one is called.

        Raises:
            ModelError: of the only candidate, or of a request that every candidate would refuse.
            ModelsFailedError: several candidates were tried, and all failed.
            BudgetError: today's budget is used up; only the first call is refused.
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
        """Returns the reply of one candidate. The end of the call is always recorded and booked."""
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
                    priced=model.cost.is_priced,
                    seconds=clock() - begin,
                    error=failure,
                    target=self.target,
                    call_id=call_id,
                )
            )


def _failed(tries: Candidates) -> ModelError:
    """Returns the error of a call that no candidate answered."""
    attempts = tries.attempts
    if len(attempts) == 1:
        return attempts[0].error
    if not attempts:
        return ModelUnavailableError("No model can be called.")
    failed = ModelsFailedError([str(attempt) for attempt in attempts])
    errors = [attempt.error for attempt in attempts]
    remedies = [
        error.remedy for error in errors if isinstance(error, ModelAuthError) and error.remedy
    ]
    failed.remedy = " ".join(dict.fromkeys(remedies)) or failed.remedy
    failed.retry_after = min(
        (error.retry_after for error in errors if error.retry_after is not None), default=None
    )
    return failed


def _missing_model(tries: Candidates, reference: str | None) -> FailedAttempt | None:
    """Returns the attempt at the requested model, if no provider has that model (any more)."""
    for attempt in tries.attempts:
        missing = isinstance(attempt.error, (ModelUnavailableError, ModelNotFoundError))
        if missing and reference in {attempt.model, f"{attempt.model}@{attempt.profile}"}:
            return attempt
    return None


def _named(candidate: ModelCandidate) -> str:
    ref = candidate.model.ref
    return f"{ref}@{candidate.profile}" if candidate.profile else ref


def _empty_reply(model: ModelInfo, usage: Usage) -> ModelError:
    """Returns the error of an empty reply: z.ai reports a full window only by the token count."""
    if usage.input + usage.cache_read + usage.cache_write > model.context_window:
        return ModelOverflowError(f"The conversation is too long for {model.ref}.")
    return ModelEmptyReplyError(f"{model.ref} answered nothing.")


class ResponseDraft:
    """Text of the present, or interrupted, response for a person."""

    def __init__(self, show: Show = file_placeholder) -> None:
        """Begins with an empty text; `show` returns the line for a file that the model names."""
        self._show = show
        self.parts: list[str] = []
        self.shaper = Shaper(show=show)

    @property
    def text(self) -> str:
        """Returns the text that was sent to people."""
        return "".join(self.parts)

    @property
    def marks(self) -> ReplyMarks:
        """Returns the model's marks on how to send the text."""
        return self.shaper.marks

    def begin(self, think: Callable[[str], None], resumed: str = "") -> None:
        """Begins another response, after the part of it that was sent already."""
        self.parts = [resumed] if resumed else []
        self.shaper = Shaper(think, self._show)


class ModelCall:
    """Calls the model of one run. Keeps the received text, so that a cancelled call has it.

    The model is chosen at the first call, so that a missing model is a failed call. If a model
    fails, `Failover` finds another one.
    """

    def __init__(
        self,
        failover: Failover,
        emit: Callable[[LoopEvent], None],
        now_ms: Callable[[], int],
        draft: "ResponseDraft | None" = None,
    ) -> None:
        """Makes the model call of a run.

        Args:
            failover: Finds the model.
            emit: Receives the events of the response, with text for a person.
            now_ms: Returns the time in milliseconds since 1970.
            draft: Gets the text of the present response; the caller may read it.

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
        """Removes repetitions after `resumed`; None without it."""
        self._listener = ReplyListener(self._on_text, self._on_thinking, self._note, failover.spend)
        self.notes: dict[str, None] = {}
        """Notes for the person about the model calls, in order."""
        self.missing_note = ""
        """Note on a requested model that is not available; empty if it is."""
        self.usage = Usage()
        """Usage of all calls so far."""
        self.failure: RunFailure | None = None
        """Failure of the last response."""

    @property
    def reference(self) -> str | None:
        """Returns the requested model, or None."""
        return self._failover.target.reference

    @reference.setter
    def reference(self, reference: str | None) -> None:
        """Requests another model; has an effect only before the first call."""
        if reference != self._failover.target.reference:
            self._failover.target = self._failover.target.of(reference)

    @property
    def provider(self) -> str:
        """Returns the provider that was called last; empty if none was."""
        return self._failover.provider

    @property
    def model(self) -> str:
        """Returns the id of the model that was called last; empty if none was."""
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

    def take_up(self, earlier: Iterable[Message], sent: str = "") -> None:
        """Counts the usage of the run's earlier responses; continues after the text `sent`.

        The request has `sent` as the beginning of the model's answer: see `runtime.continuation`.
        """
        for message in earlier:
            if isinstance(message, AssistantMessage):
                self.usage += message.usage
        self.resumed = sent
        self._begin_response()

    def gateway_message(self, text: str) -> AssistantMessage:
        """Returns a message of the gateway in place of the model's."""
        before = f"{self.resumed.rstrip()}\n\n" if self.resumed else ""
        return self._message((TextBlock(before + text),), "stop", Usage())

    def broken_off(self, stop_reason: str, error: str | None) -> AssistantMessage:
        """Returns a message with the text received before the response ended early."""
        self._flush_text(cut=True)
        content: list[Block] = []
        if self._thoughts:
            content.append(ThinkingBlock("".join(self._thoughts)))
        if text := self.draft.text:
            content.append(TextBlock(text))
        return self._message(tuple(content), stop_reason, Usage(), error)

    def _withdraw(self) -> None:
        """Withdraws the text of a failed model, also from clients that received it."""
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
            self.draft.parts.append(text)
            self._emit(MessageUpdate(text))

    def _on_thinking(self, delta: str) -> None:
        delta = storable(delta)
        self._thoughts.append(delta)
        self._emit(ThinkingUpdate(delta))
