"""Sends the output of an active run in blocks: its text, its reasoning, its tool calls.

A block is sent when its outbox row is written; the same unit records it in the run. After an
interruption the run continues behind its blocks or is closed, so no text is sent twice. Blocks that
still wait at the end of the run are written in the unit that ends it.
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
    """Text of a response for the person."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    cut: int = 0
    """Number of characters that were put into blocks."""
    stored: int = 0
    """Number of characters whose blocks are in the outbox."""
    marks: ReplyMarks = field(default_factory=ReplyMarks)


class _QueuedBlock(Struct, frozen=True):
    """A block that waits. `end` is the offset of its end in the response; None for other output."""

    text: str
    response: _Response
    end: int | None = None


class BlockStreamer:
    """Sends messages to a platform during a run. Use as `async with` around the run."""

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
        """Finds the files that a text names; None if no files are sent."""
        self._preview = 0
        """Serial of the preview message that the next text completes; 0 for none."""
        self._runtime = runtime
        self._context = context
        self.to = to
        self.style = style
        self._show = show
        # A plugin may change the complete message; removed text must not have been sent.
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
        """Number of blocks sent, which is the index of the next one."""

    @property
    def streams(self) -> bool:
        """Returns whether the text is sent in blocks."""
        return self.style.streams

    def take_up(self, continued: ContinuedRun) -> None:
        """Continues after the blocks of the run that an earlier process sent."""
        self._continued = continued
        self.blocks, sent, self._preview = continued.blocks, continued.sent, continued.preview
        if sent:
            self._resumed = _Response([sent], cut=len(sent), stored=len(sent))
            self._chunker.continue_after(sent)
        elif sent is None and self.streams:  # the earlier process would have sent it at the end
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
        """Handles an event of the run without waiting. `marks` say how to send the text."""
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
        """Sends the blocks that wait, before their text is written to the transcript.

        Raises:
            StoreFailedError: a block cannot be written now; it still waits.
        """
        if self._queue:
            await self._drain(at_once=True)

    async def finish(self, result: RunResult, messages: Sequence[Message]) -> list[Block]:
        """Returns the remaining blocks of an ended run, for the unit that ends it.

        With pauses between blocks, all but the last are sent before, unless the run broke off.
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
        """Returns the text that no block contains, for output that is sent at the end."""
        before = self._continued
        if before is None or before.sent is None:
            return response_texts(messages, self._show)
        first, *rest = response_texts(messages[len(before.messages) + 1 :], self._show) or [
            ShapedText("")
        ]
        text = first.text.removeprefix(before.sent).strip("\n")
        return [replace(first, text=text), *rest] if text else rest

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
        """Sends the thoughts before the text that follows them."""
        thoughts = "".join(self._response.thoughts)
        self._response.thoughts.clear()
        if thoughts.strip():
            self._notice(reasoning(thoughts))
        if self.style.reasoning is Detail.STREAM:
            self._queue_reasoning(self._thoughts.flush())

    def _queue_reasoning(self, chunks: list[TextPiece]) -> None:
        for chunk in chunks:
            if chunk.body.strip():
                self._notice(reasoning(chunk.body))

    def _begin_anew(self) -> None:
        """Drops a failed response; sends a notice if part of it was sent."""
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
        """Cuts a complete message into blocks."""
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

    def _push(self, chunks: list[TextPiece], *, wake: bool = True) -> None:
        for chunk in chunks:
            if self.style.idle:
                self._queue_text(self._joining.add(chunk))
            else:
                self._queue_text([chunk])
        if chunks and wake:
            self._wake.set()

    def _queue_text(self, chunks: list[TextPiece]) -> None:
        response = self._response
        for chunk in chunks:
            first = response.cut == 0
            response.cut += len(chunk.body)
            text = chunk.text.strip("\n") if chunk.body.strip() else ""
            if text:
                text = self._prefixed(text) if first else text
                self._queue.append(_QueuedBlock(text, response, response.cut))

    # Blocks

    async def _work(self) -> None:
        """Sends blocks as they are queued, until cancelled."""
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
                # It stays queued: the next write, or the end of the run, sends it.
                logger.warning("a block of run %s could not be stored yet", self._context.run_id)

    async def _drain(self, *, at_once: bool) -> None:
        async with self._lock:
            while self._queue:
                if not at_once and self._queue[0].end is not None:
                    await self._pause()
                with anyio.CancelScope(shield=True):  # a sent block must be removed from the queue
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
        # A failed response, which was begun again, may still have queued blocks.
        delivered = end if response is self._response else self._response.stored
        checkpoint = ("".join(self._response.text), delivered) if self.streams else None

        def write(unit: Unit) -> None:
            outbox.add(unit, run_id, number, to, parts, now)
            runs.note_block(unit, run_id, checkpoint)

        await self._runtime.store.write(write)
        self.blocks += 1
        self._preview = 0 if is_text else self._preview
        response.stored = end
        self._runtime.delivery.wake(self.to)

    def _growth(self) -> tuple[str, int]:
        """Returns the present text for a preview, and the serial of its row."""
        response = self._response
        text = "".join(response.text)[response.cut :].strip("\n")
        return (text if response.cut else self._prefixed(text)) if text else "", self._preview

    async def _begin_preview(self, content: Content) -> None:
        """Writes the row of a preview; the run records it as a block without text."""
        response, run_id = self._response, self._context.run_id
        to = self._block("", response.marks).addressed(self.to)
        number, now = self.blocks, self._runtime.clock.now_ms()
        progress = "".join(response.text), response.stored

        def write(unit: Unit) -> int:
            outbox.add(unit, run_id, number, to, [content], now)
            runs.note_block(unit, run_id, progress)
            return outbox.open_preview(unit, run_id)

        self._preview = await self._runtime.store.write(write)
        self.blocks += 1
        self._runtime.delivery.wake(self.to)

    def _block(self, text: str, marks: ReplyMarks | None, is_text: bool = True) -> Block:  # noqa: FBT001, FBT002 - three callers here
        """Returns a block with the text, the message it quotes, and the preview it replaces."""
        preview = self._preview if is_text else 0
        if marks is None:
            return Block(text, completes=preview)
        current = self.to.message_id if marks.reply_to_current else None
        return Block(text, marks.reply_to or current, marks.voice, preview)
