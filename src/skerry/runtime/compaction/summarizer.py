"""Asks a model for the summary of a conversation, in chunks that fit its context window."""

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
"""Seconds before a failed call is repeated; doubled each time."""
MAX_CHUNKS: Final = 16
"""Limit on the requests for one summary. Earlier chunks are only extracted."""
MIN_ROOM: Final = 200
"""Tokens of conversation in a request below which a summary is not useful."""
MARGIN: Final = 1.2
"""Factor by which the real number of tokens may exceed the estimate (openclaw-behaviour 7.4)."""


class Summarizer:
    """Makes one summary, with the models of `target`."""

    def __init__(self, runtime: Runtime, target: CallTarget) -> None:
        target = replace(target, purpose=Purpose.COMPACTION)
        failover = runtime.failover(target)
        self._speaker = ModelCall(failover, _ignore_event, runtime.clock.now_ms)

    async def text(
        self, messages: tuple[Message, ...], previous: str, instructions: str, limits: TokenBudget
    ) -> str | None:
        """Returns the summary of `previous` and the messages; None if no model writes one."""
        room = _room(limits.window, limits.summary, instructions)
        for _ in range(ATTEMPTS):
            if room < MIN_ROOM:
                return None
            try:
                return await self._folded(messages, previous, instructions, limits.summary, room)
            except _TooLongError:
                room //= 2
        return None

    async def _folded(
        self, messages: tuple[Message, ...], previous: str, instructions: str, limit: int, room: int
    ) -> str | None:
        parts = chunks(lines(messages), room)
        if len(parts) > MAX_CHUNKS:
            older = "\n".join(parts[:-MAX_CHUNKS])
            previous = extracted([message.user(older, 0)], previous, limit)
        summary: str | None = previous
        for part in parts[-MAX_CHUNKS:]:
            summary = await self._summarize(part, summary or "", instructions, limit)
            if summary is None:
                return None
        return summary

    async def _summarize(
        self, part: str, previous: str, instructions: str, limit: int
    ) -> str | None:
        """Returns the summary of the previous summary and a chunk; None if no model writes one.

        Raises:
            _TooLongError: the chunk is too long for the model.
        """
        replaced = tokens(part) + tokens(previous)

        async def ask(model: ModelInfo) -> ModelRequest:
            # A fall-back model may have a smaller window than the first one.
            room = _room(model.context_window, limit, instructions)
            conversation = fitted(part, max(room, MIN_ROOM // 2))
            text = request_text(
                conversation, fitted(previous, limit * 2), instructions, max_tokens=limit
            )
            limited = replace(model, max_tokens=min(model.max_tokens, limit * 2))
            return ModelRequest(limited, SYSTEM, History([message.user(text, 0)]))

        for attempt in range(ATTEMPTS):
            reply = await self._speaker.respond(ask)
            failure = self._speaker.failure
            if failure is None:
                problem = fault(reply.text, replaced, limit)
                if problem is None and reply.stop_reason == "stop":
                    return reply.text.strip()
                logger.warning("a summary cannot be used: %s", problem or reply.stop_reason)
            elif failure.code == ModelOverflowError.code:
                raise _TooLongError
            elif not failure.retryable:
                return None
            else:
                await anyio.sleep(RETRIES.delay(attempt + 1))
        return None


class _TooLongError(Exception):
    """A chunk is too long for the model."""


def _room(window: int, limit: int, instructions: str) -> int:
    """Returns the tokens of a conversation that fit a request for a summary of `limit` tokens."""
    fixed = tokens(SYSTEM) + tokens(request_text("", "", instructions, max_tokens=limit))
    # The answer and the previous summary may each be twice as long as the limit.
    return int((window - fixed - 4 * limit) / MARGIN) - 32


def _ignore_event(_: LoopEvent) -> None:
    """Ignores the event: a summary is not streamed to clients."""
