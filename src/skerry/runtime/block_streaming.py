"""Sends what a run says while it goes on: blocks of its text, its reasoning, its tool calls.

A block leaves when its outbox row is written, and the same unit marks the run: one with blocks that
is interrupted goes on behind them, or is closed, and what they said is not said twice. What has not
left when the run ends goes with its end.
"""

import logging
import random
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, Self

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.hooks.events import RunContext
from skerry.lanes.active_runs import ContinuedRun
from skerry.model.errors import StoreFailedError
from skerry.model.event import (
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    MessageWithdrawn,
    ThinkingUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from skerry.model.inbound import ReplyTo
from skerry.model.message import AssistantMessage, Message
from skerry.model.outbound import Content
from skerry.model.run import RunResult, StopReason
from skerry.replies.chunking import Chunker, Coalescer
from skerry.replies.shaping import ShapedText, Show, shaped
from skerry.replies.split_points import TextPiece
from skerry.replies.style import (
    Detail,
    Style,
    TypingMode,
    footer,
    reasoning,
    tool_begun,
    tool_ended,
)
from skerry.replies.tags import ReplyMarks
from skerry.runtime.finalize import Attach, Block, block_parts, end_notices, response_texts
from skerry.runtime.late import preview_streaming
from skerry.runtime.run_context import Runtime
from skerry.runtime.typing_indicator import TypingIndicator
from skerry.store import Unit, outbox, runs

logger = logging.getLogger(__name__)

BEGUN_ANEW: Final = "↻ That answer broke off; here it is from the beginning:"
"""Text between sent blocks and the answer of another model to the same message."""


class _Response(Struct):
    """Text of one response, as the person reads it."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    cut: int = 0
    """Characters that were made into blocks."""
    stored: int = 0
    """Characters whose blocks are in the outbox."""
    marks: ReplyMarks = field(default_factory=ReplyMarks)


class _QueuedBlock(Struct, frozen=True):
    """A block that is to leave. `end` counts the characters said up to it; None is no text."""

    text: str
    response: _Response
    end: int | None = None


class BlockStreamer:
    """Messages of one run to a platform before it ends. Enter it beside the run."""

    def __init__(
        self,
        runtime: Runtime,
        context: RunContext,
        to: ReplyTo,
        style: Style,
        show: Show,
        prefixed: Show,
    ) -> None:
        self._prefixed = prefixed
        self.attach: Attach | None = None
        """Finds the files that a text names; None where none is sent."""
        self._preview = 0
        """Serial of the growing message that the next words complete; 0 without one."""
        self._runtime = runtime
        self._context = context
        self.to = to
        self.style = style
        self._show = show
        # A plugin may change a message when it is whole; what it takes out must not have left.
        self._whole = style.whole or bool(runtime.hooks.llm_output.handlers)
        self._chunker = Chunker(style.chunking)
        self._thoughts = Chunker(style.chunking)
        self._joining = Coalescer(style.joined_from, style.joined_to, style.chunking.unit)
        self._response = _Response()
        self._resumed: _Response | None = None
        self._continued: ContinuedRun | None = None
        self._queue: deque[_QueuedBlock] = deque()
        self._lock = anyio.Lock()
        self._wake = anyio.Event()
        self._signal = TypingIndicator(runtime.delivery.typing, to, style.typing, style.interval)
        self._stack = AsyncExitStack()
        self.blocks = 0
        """Number of blocks sent: the index of the next."""

    @property
    def streams(self) -> bool:
        """Returns whether the text leaves in blocks."""
        return self.style.streams

    def take_up(self, continued: ContinuedRun) -> None:
        """Goes on behind what an earlier process has sent of the run."""
        self._continued = continued
        self.blocks, sent, self._preview = continued.blocks, continued.sent, continued.preview
        if sent:
            self._resumed = _Response([sent], cut=len(sent), stored=len(sent))
            self._chunker.take_up(sent)
        elif sent is None and self.streams:  # it was to leave at the end
            for shaped_text in response_texts(continued.messages, self._show):
                self._notice(self._prefixed(shaped_text.text))

    async def __aenter__(self) -> Self:
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        if self.style.typing is not TypingMode.NEVER:
            tasks.start_soon(self._signal.run)
        if self.streams or {self.style.reasoning, self.style.verbose} != {Detail.OFF}:
            tasks.start_soon(self._work)
        if self.style.preview != "off":
            runtime, run_id = self._runtime, self._context.run_id
            preview = preview_streaming.Preview(
                runtime.store, runtime.delivery, run_id, self.to, self.style.preview
            )
            tasks.start_soon(preview.run, self._lock, self._growth, self._begin_preview)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    def on_event(self, event: LoopEvent, marks: ReplyMarks | None = None) -> None:
        """Takes what the run does; nothing here waits. `marks` say how the text is to be sent."""
        match event:
            case MessageUpdate(delta):
                self._add_text(delta, marks)
            case ThinkingUpdate(delta):
                self._add_thought(delta)
            case MessageWithdrawn():
                self._begin_anew()
            case MessageStart(None):
                self._response, self._resumed = self._resumed or _Response(), None
            case MessageEnd(AssistantMessage() as message):
                self._end(message)
            case ToolExecutionStart(call) if self.style.verbose is not Detail.OFF:
                self._notice(tool_begun(call))
            case ToolExecutionEnd(call, result) if self.style.verbose is Detail.FULL:
                self._notice(tool_ended(call, result.text, failed=result.is_error))
            case _:
                pass

    async def settle(self) -> None:
        """Lets leave what waits: the transcript is to have the text that it belongs to.

        Raises:
            StoreFailedError: it cannot be written now; it still waits.
        """
        if self._queue:
            await self._drain(at_once=True)

    async def finish(self, result: RunResult, messages: Sequence[Message]) -> list[Block]:
        """Returns the rest of the text when the run has ended, for the unit that ends it.

        With pauses between blocks all but the last leave before, unless the run broke off.
        """
        if self.style.pause is not None and result.stop_reason is StopReason.DONE:
            last = [self._queue.pop()] if self._queue else []
            await self._drain(at_once=False)
            self._queue.extend(last)
            await self._pause()
        blocks = list[Block]()
        for queued in self._queue:
            blocks.append(self._block(queued.text, queued.response.marks, queued.end is not None))
            self._preview = 0 if queued.end is not None else self._preview
        self._queue.clear()
        for text in self._unsent(messages) if not self.streams else ():
            blocks.append(self._block(self._prefixed(text.text), text.marks))
            self._preview = 0
        line = footer(self.style.usage, result.usage, result.session_key)
        if line and blocks:
            last_block = blocks.pop()
            blocks.append(replace(last_block, text=f"{last_block.text.rstrip()}\n\n{line}"))
        elif line and self.blocks:
            blocks.append(Block(line))
        return [*blocks, *end_notices(result)]

    def _unsent(self, messages: Sequence[Message]) -> list[ShapedText]:
        """Returns the text that no block contains, where it is sent at the end."""
        before = self._continued
        if before is None or before.sent is None:
            return response_texts(messages, self._show)
        first, *others = response_texts(messages[len(before.messages) + 1 :], self._show) or [
            ShapedText("")
        ]
        text = first.text.removeprefix(before.sent).strip("\n")
        return [replace(first, text=text), *others] if text else others

    # Events of the loop

    def _add_text(self, delta: str, marks: ReplyMarks | None) -> None:
        self._signal.speaks()
        self._flush_reasoning()
        if not self.streams or (self._whole and self.style.preview == "off"):
            return
        response = self._response
        response.marks = marks or response.marks
        response.text.append(delta)
        if not self._whole:
            self._push(self._chunker.feed(delta))

    def _add_thought(self, delta: str) -> None:
        self._signal.thinks()
        match self.style.reasoning:
            case Detail.ON:
                self._response.thoughts.append(delta)
            case Detail.STREAM:
                self._queue_reasoning(self._thoughts.feed(delta))

    def _flush_reasoning(self) -> None:
        """Lets the thoughts leave before the words that they led to."""
        thoughts = "".join(self._response.thoughts)
        self._response.thoughts.clear()
        if thoughts.strip():
            self._notice(reasoning(thoughts))
        if self.style.reasoning is Detail.STREAM:
            self._queue_reasoning(self._thoughts.flush())

    def _queue_reasoning(self, pieces: list[TextPiece]) -> None:
        for piece in pieces:
            if piece.body.strip():
                self._notice(reasoning(piece.body))

    def _begin_anew(self) -> None:
        """Forgets a response that failed; says so where part of it has left."""
        self._chunker.drop()
        self._thoughts.drop()
        self._joining.flush()
        was_sent = self._response.cut > 0
        self._response = _Response()
        if was_sent:
            self._notice(BEGUN_ANEW)

    def _end(self, message: AssistantMessage) -> None:
        self._flush_reasoning()
        if not self.streams:
            return
        if self._whole:
            self._take_whole(message)
        self._push(self._chunker.flush(), wake=False)
        self._queue_text(self._joining.flush())

    def _take_whole(self, message: AssistantMessage) -> None:
        """Makes blocks of a message that was waited for."""
        if message.stop_reason in {"error", "aborted"}:
            text = message.text
        else:
            answer = shaped(message.text, self._show)
            text = answer.text
            self._response.marks = answer.marks or self._response.marks
        sent = "".join(self._response.text)[: self._response.cut]  # before a restart
        if not text.startswith(sent):
            self._begin_anew()
            sent = ""
        self._response.text = [text]
        self._push(self._chunker.feed(text[len(sent) :]), wake=False)

    def _notice(self, text: str) -> None:
        self._queue.append(_QueuedBlock(text, self._response))
        self._wake.set()

    def _push(self, pieces: list[TextPiece], *, wake: bool = True) -> None:
        for piece in pieces:
            if self.style.idle:
                self._queue_text(self._joining.add(piece))
            else:
                self._queue_text([piece])
        if pieces and wake:
            self._wake.set()

    def _queue_text(self, pieces: list[TextPiece]) -> None:
        response = self._response
        for piece in pieces:
            first = response.cut == 0
            response.cut += len(piece.body)
            text = piece.text.strip("\n") if piece.body.strip() else ""
            if text:
                text = self._prefixed(text) if first else text
                self._queue.append(_QueuedBlock(text, response, response.cut))

    # Blocks

    async def _work(self) -> None:
        """Lets blocks leave as they come, until cancelled."""
        while True:
            idle = self.style.idle if self._joining.holds else None
            with anyio.move_on_after(idle) as waiting:
                await self._wake.wait()
            if waiting.cancelled_caught:
                self._queue_text(self._joining.idle())
            self._wake = anyio.Event()
            try:
                await self._drain(at_once=False)
            except StoreFailedError:
                # It waits; who writes next writes it first, or the end of the run has it.
                logger.warning("a block of run %s could not leave yet", self._context.run_id)

    async def _drain(self, *, at_once: bool) -> None:
        async with self._lock:
            while self._queue:
                if not at_once and self._queue[0].end is not None:
                    await self._pause()
                with anyio.CancelScope(shield=True):  # what left must be known to have left
                    await self._send(self._queue[0])
                    self._queue.popleft()

    async def _pause(self) -> None:
        pause = self.style.pause
        if pause is not None and self.blocks:
            await anyio.sleep(random.uniform(*pause))  # noqa: S311 - no secret

    async def _send(self, block: _QueuedBlock) -> None:
        response, run_id = block.response, self._context.run_id
        runtime, is_text = self._runtime, block.end is not None
        marked = self._block(block.text, response.marks, is_text)
        to, parts = await block_parts(
            runtime.hooks, self._context, marked, self.to, runtime.delivery.parts, self.attach
        )
        number, now = self.blocks, self._runtime.clock.now_ms()
        end = response.stored if block.end is None else block.end
        # A response that failed and was begun anew may still have blocks that wait.
        delivered = end if response is self._response else self._response.stored
        checkpoint = ("".join(self._response.text), delivered) if self.streams else None

        def leave(unit: Unit) -> None:
            outbox.add(unit, run_id, number, to, parts, now)
            runs.leave_block(unit, run_id, checkpoint)

        await self._runtime.store.write(leave)
        self.blocks += 1
        self._preview = 0 if is_text else self._preview
        response.stored = end
        self._runtime.delivery.wake(self.to)

    def _growth(self) -> tuple[str, int]:
        """Returns the text that a preview may show now, and the serial of its row."""
        response = self._response
        text = "".join(response.text)[response.cut :].strip("\n")
        return (text if response.cut else self._prefixed(text)) if text else "", self._preview

    async def _begin_preview(self, content: Content) -> None:
        """Writes the row of a preview, which marks the run as a block does that says nothing."""
        response, run_id = self._response, self._context.run_id
        to = self._block("", response.marks).addressed(self.to)
        number, now = self.blocks, self._runtime.clock.now_ms()
        progress = "".join(response.text), response.stored

        def leave(unit: Unit) -> int:
            outbox.add(unit, run_id, number, to, [content], now)
            runs.leave_block(unit, run_id, progress)
            return outbox.open_preview(unit, run_id)

        self._preview = await self._runtime.store.write(leave)
        self.blocks += 1
        self._runtime.delivery.wake(self.to)

    def _block(self, text: str, marks: ReplyMarks | None, is_text: bool = True) -> Block:  # noqa: FBT001, FBT002 - three callers here
        """Returns a text with the message that it is to quote, and the preview that it replaces."""
        preview = self._preview if is_text else 0
        if marks is None:
            return Block(text, completes=preview)
        current = self.to.message_id if marks.reply_to_current else None
        return Block(text, marks.reply_to or current, marks.voice, preview)
