"""The end of a run: its result, the text for the person, and the unit that stores both."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import MessageSending
from skerry.model.errors import StateError
from skerry.model.ids import RunId, SessionId
from skerry.model.inbound import ReplyTo
from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    Usage,
    aborted_result,
    is_command_answer,
    open_calls,
)
from skerry.model.outbound import Additions, Content
from skerry.model.run import RunFailure, RunResult, StopReason
from skerry.replies.shaping import ShapedText, Show, file_placeholder, shaped
from skerry.store import Reader, Unit, outbox, runs, sessions

logger = logging.getLogger(__name__)

STOPPED: Final = "⏹ Stopped."
ANSWERED: Final = frozenset({"stop", "interrupt"})
"""Values of `aborted_by` for stops with a separate answer: `/stop` and an interrupting message."""
CUT_OFF: Final = "✂️ The answer reached the model's output limit. Ask it to continue."
INTERRUPTED: Final = (
    "⚠️ I was interrupted before I could finish, and some of it may have happened already."
    " /retry runs your message again."
)
COMMAND_INTERRUPTED: Final = (
    "⚠️ I was interrupted while I did this, and it may have happened already. If it has not, give"
    " the command again."
)
"""The notice for a command, which `/retry` does not repeat."""


def payloads(messages: Sequence[Message], show: Show = file_placeholder) -> tuple[str, ...]:
    """Returns the texts of the reply for the person: one for each response, in order."""
    return tuple(shaped_text.text for shaped_text in response_texts(messages, show))


def response_texts(messages: Sequence[Message], show: Show = file_placeholder) -> list[ShapedText]:
    """Returns the text of each response, without empty and silent ones."""
    texts = []
    for message in messages:
        if not isinstance(message, AssistantMessage):
            continue
        # A broken-off text is shaped already; the answer of a command is not from a model.
        if message.stop_reason in {"error", "aborted"} or is_command_answer(message):
            texts.append(ShapedText(message.text))
        else:
            texts.append(shaped(message.text, show))
    return [text for text in texts if text.text.strip()]


def cut_off(messages: Sequence[Message]) -> bool:
    """Returns whether the last response reached the output limit of the model."""
    last = messages[-1] if messages else None
    return isinstance(last, AssistantMessage) and last.stop_reason == "length"


def for_guest(result: RunResult, guest: RunId) -> RunResult:
    """Returns the result of a run whose message joined another run, from the latter's result."""
    return msgspec.structs.replace(
        result,
        run_id=guest,
        payloads=(),
        usage=Usage(),
        joined=result.run_id,
        cut_off=False,
        notices=(),
    )


def unexpected(error: Exception) -> RunFailure:
    """Returns the failure to report for an exception that is not a model's."""
    if isinstance(error, StateError):
        return RunFailure(error.code, f"The run could not be stored: {error}", retryable=True)
    return RunFailure("internal", "The run failed unexpectedly; see the log.")


class Block(Struct, frozen=True):
    """A message for a person, before it is cut into parts."""

    text: str
    quote: str | None = None
    """The platform's id of the quoted message."""
    voice: bool = False
    """True if the audio files that it names are sent as voice messages."""
    completes: int = 0
    """Serial of the preview that its first text replaces; 0 for none."""

    def addressed(self, to: ReplyTo) -> ReplyTo:
        """Returns the address of the block, with its quote."""
        return replace(to, quote=self.quote) if self.quote else to


Part = str | Content
Outgoing = list[tuple[ReplyTo, Sequence[Part]]]
"""The address and the parts of each block."""
Attach = Callable[[str, bool], Awaitable[list[Part]]]
"""Function that splits a text into texts and files in order; True asks for voice messages."""


def end_notices(result: RunResult) -> list[Block]:
    """Returns the notice for the person about the end of the run, if the reply does not show it."""
    match result.stop_reason:
        case StopReason.ABORTED if result.aborted_by in ANSWERED:
            return []
        case StopReason.ABORTED | StopReason.INTERRUPTED:
            return [Block(result.error.message if result.error else STOPPED)]
        case _ if result.error is not None:
            return [Block(f"⚠️ I could not answer: {result.error.message}")]
        case _ if result.cut_off:
            return [Block(CUT_OFF)]
        case _ if result.payloads:
            return [Block(f"Note: {notice}") for notice in result.notices]
    return []


def settle(
    unit: Unit,
    result: RunResult,
    tail: int,
    unsaved: Sequence[Message],
    guests: Sequence[RunId] = (),
) -> int:
    """Writes the end of a run: transcript, result, totals. Returns the transcript's new tail."""
    if unsaved:
        tail = sessions.append(
            unit, result.session_id, tail, result.run_id, unsaved, result.ended_at
        )
    sessions.note_run(
        unit,
        result.session_id,
        result.usage,
        result.provider,
        result.model,
        aborted=result.stop_reason is StopReason.ABORTED,
    )
    runs.finish(unit, result)
    for guest in guests:
        runs.finish(unit, for_guest(result, guest))
    return tail


def settle_failed(unit: Unit, result: RunResult, entry: int, guests: Sequence[RunId] = ()) -> None:
    """Writes the failure of a run whose end could not be written; `entry` is its user entry or 0.

    The transcript then has a result for every call and ends in an empty assistant message.
    """
    messages = run_messages(unit, result.session_id, result.run_id, entry)
    unsaved = closing(messages, "error", result) if entry or messages else []
    settle(unit, result, sessions.tail(unit, result.session_id), unsaved, guests)


def run_messages(reader: Reader, session_id: SessionId, run_id: RunId, entry: int) -> list[Message]:
    """Returns the transcript of a run after its user entry."""
    entries = sessions.entries(reader, session_id, limit=-1, after=entry)
    return [stored.message for stored in entries if stored.run_id == run_id]


def closing(
    messages: Sequence[Message], stop_reason: str, result: RunResult, text: str = ""
) -> list[Message]:
    """Returns the missing entries of a broken run: results of its open calls, and an answer."""
    at, content = result.ended_at, (TextBlock(text),) if text else ()
    reason = result.error.message if result.error else None
    last = AssistantMessage(content, "", "", "", Usage(), stop_reason, at, reason)
    return [*(aborted_result(call, at) for call in open_calls(messages)), last]


async def outgoing(
    hooks: Hooks,
    context: RunContext,
    blocks: Sequence[Block],
    to: ReplyTo,
    parts: Callable[[ReplyTo, str], list[str]],
    attach: Attach | None = None,
) -> Outgoing:
    """Returns the parts of each block for the person; a block that hooks cancel has none."""
    return [await block_parts(hooks, context, block, to, parts, attach) for block in blocks]


async def block_parts(
    hooks: Hooks,
    context: RunContext,
    block: Block,
    to: ReplyTo,
    parts: Callable[[ReplyTo, str], list[str]],
    attach: Attach | None,
) -> tuple[ReplyTo, Sequence[Part]]:
    """Returns the address of a block and its parts: its text, cut, and its files."""
    addressed = block.addressed(to)
    text = await filtered_text(hooks, context, addressed, block.text)
    if not text:
        return addressed, []
    contents = await attach(text, block.voice) if attach is not None else [text]
    cut: list[Part] = []
    for content in contents:
        cut += parts(addressed, content) if isinstance(content, str) else [content]
    if block.completes:
        index = next((index for index, part in enumerate(cut) if isinstance(part, str)), None)
        if index is not None:
            cut[index] = Content(str(cut[index]), Additions(completes=block.completes))
    return addressed, cut


async def filtered_text(hooks: Hooks, context: RunContext, to: ReplyTo, text: str) -> str | None:
    """Returns the text after the `message_sending` hook; None if the hook cancels it."""
    if not hooks.message_sending.handlers:
        return text
    draft = await hooks.message_sending.run(
        MessageSending(
            context=context,
            account=to.account,
            to=to.peer.id,
            content=text,
            thread_id=to.thread_id,
            in_reply_to=to.message_id,
        )
    )
    if draft.cancel_reason is None:
        return draft.content
    logger.warning("a block of run %s is not sent: %s", context.run_id, draft.cancel_reason)
    return None


def add_to_outbox(unit: Unit, result: RunResult, blocks: Outgoing, first: int = 0) -> None:
    """Writes the outbox rows in the unit that ends the run; `first` is the first block's number."""
    for block, (to, texts) in enumerate(blocks, first):
        outbox.add(unit, result.run_id, block, to, texts, result.ended_at)
