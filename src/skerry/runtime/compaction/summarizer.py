"""Asks a model for the summary of a conversation, in parts that fit its window."""

import logging
from typing import Final

import anyio
from msgspec.structs import replace

from skerry.infra.backoff import Backoff
from skerry.model import message
from skerry.model.errors import ModelOverflowError
from skerry.model.event import LoopEvent
from skerry.model.message import Message
from skerry.model.run import Purpose
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.ports.model_candidates import CallTarget
from skerry.runtime.model_call import ModelCall
from skerry.runtime.run_context import Runtime
from skerry.sessions.summary import SYSTEM, chunks, extracted, fault, lines, request_text
from skerry.sessions.window import TokenBudget, fitted, tokens

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 3
RETRIES: Final = Backoff(base=0.5, cap=8.0)
"""Seconds before a failed call is made again; twice as long each time."""
MOST_CHUNKS: Final = 16
"""Requests for one summary. Of what is more, the oldest is only extracted."""
LEAST_ROOM: Final = 200
"""Tokens; with less of the conversation in one request a summary makes no sense."""
MARGIN: Final = 1.2
"""Tokens are counted by characters; so much more there may be (openclaw-behaviour 7.4)."""


class Summarizer:
    """One summary, made for a run or for nobody who waits."""

    def __init__(self, runtime: Runtime, target: CallTarget) -> None:
        target = replace(target, purpose=Purpose.COMPACTION)
        failover = runtime.failover(target)
        self._speaker = ModelCall(failover, _unheard, runtime.clock.now_ms)

    async def text(
        self, messages: tuple[Message, ...], previous: str, instructions: str, limits: TokenBudget
    ) -> str | None:
        """Returns the summary of `previous` and what was said since; None if no model makes one."""
        room = _room(limits.window, limits.summary, instructions)
        for _ in range(ATTEMPTS):
            if room < LEAST_ROOM:
                return None
            try:
                return await self._folded(messages, previous, instructions, limits.summary, room)
            except _TooLongError:
                room //= 2
        return None

    async def _folded(
        self, messages: tuple[Message, ...], previous: str, instructions: str, most: int, room: int
    ) -> str | None:
        parts = chunks(lines(messages), room)
        if len(parts) > MOST_CHUNKS:
            older = "\n".join(parts[:-MOST_CHUNKS])
            previous = extracted([message.user(older, 0)], previous, most)
        summary: str | None = previous
        for part in parts[-MOST_CHUNKS:]:
            summary = await self._summarize(part, summary or "", instructions, most)
            if summary is None:
                return None
        return summary

    async def _summarize(
        self, part: str, previous: str, instructions: str, most: int
    ) -> str | None:
        """Returns the summary of one part, added to the previous one; None if there is none.

        Raises:
            _TooLongError: the model did not take so much at once.
        """
        replaced = tokens(part) + tokens(previous)

        async def ask(model: ModelInfo) -> ModelRequest:
            # A fall-back may have a smaller window than the model that it was cut for.
            fits = _room(model.context_window, most, instructions)
            conversation = fitted(part, max(fits, LEAST_ROOM // 2))
            text = request_text(
                conversation, fitted(previous, most * 2), instructions, max_tokens=most
            )
            limited = replace(model, max_tokens=min(model.max_tokens, most * 2))
            return ModelRequest(limited, SYSTEM, History([message.user(text, 0)]))

        for attempt in range(ATTEMPTS):
            reply = await self._speaker.respond(ask)
            failure = self._speaker.failure
            if failure is None:
                wrong = fault(reply.text, replaced, most)
                if wrong is None and reply.stop_reason == "stop":
                    return reply.text.strip()
                logger.warning("a summary cannot be used: %s", wrong or reply.stop_reason)
            elif failure.code == ModelOverflowError.code:
                raise _TooLongError
            elif not failure.retryable:
                return None
            else:
                await anyio.sleep(RETRIES.delay(attempt + 1))
        return None


class _TooLongError(Exception):
    """A part did not fit the model."""


def _room(window: int, most: int, instructions: str) -> int:
    """Returns how many tokens of a conversation fit a request for a summary."""
    fixed = tokens(SYSTEM) + tokens(request_text("", "", instructions, max_tokens=most))
    # The answer, and the previous summary, may each have twice what they should.
    return int((window - fixed - 4 * most) / MARGIN) - 32


def _unheard(_: LoopEvent) -> None:
    """Does nothing: nobody reads a summary while it is written."""
