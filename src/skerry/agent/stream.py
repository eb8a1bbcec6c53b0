"""One model call: events while it speaks, a message when it ends, a failure as a value."""

import logging
from collections.abc import Awaitable, Callable

from skerry.model.errors import ModelEmptyReplyError, ModelError, ModelOverflowError
from skerry.model.event import LoopEvent, MessageUpdate, ThinkingUpdate
from skerry.model.message import AssistantMessage, Block, TextBlock, ThinkingBlock, Usage
from skerry.model.run import RunFailure
from skerry.ports.model import Listener, ModelInfo, ModelProvider, ModelRequest, Models

logger = logging.getLogger(__name__)


class Speaker:
    """The model of one run. Keeps what it says, so that a cancelled call leaves its text behind.

    The model is chosen at the first call, so that a machine without one fails like a model does.
    """

    def __init__(
        self,
        models: Models,
        reference: str | None,
        emit: Callable[[LoopEvent], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._models = models
        self.reference = reference
        """The model that is asked for; counts until the first call."""
        self._emit = emit
        self._now_ms = now_ms
        self._chosen: tuple[ModelProvider, ModelInfo] | None = None
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._listener = Listener(self._say, self._think)
        self.usage = Usage()
        """Of all calls so far."""
        self.failure: RunFailure | None = None
        """Of the last call."""

    @property
    def provider(self) -> str:
        """Return the provider that was asked, or nothing when none could be."""
        return self._chosen[1].provider if self._chosen else ""

    @property
    def model(self) -> str:
        """Return the model that was asked, or nothing when none could be."""
        return self._chosen[1].id if self._chosen else ""

    @property
    def partial(self) -> str:
        """Return the text that the present, or interrupted, response has said."""
        return "".join(self._pieces)

    async def respond(
        self, ask: Callable[[ModelInfo], Awaitable[ModelRequest]]
    ) -> AssistantMessage:
        """Return the response; one that failed has stop reason `error` and its partial text."""
        self._forget()
        self.failure = None
        try:
            if self._chosen is None:
                self._chosen = await self._models.choose(self.reference)
            provider, model = self._chosen
            reply = await provider.complete(await ask(model), self._listener)
            if not reply.tool_calls and not reply.text.strip():
                raise _silent(model, reply.usage)
        except ModelError as error:
            logger.warning("the model failed: %s", error)
            self.failure = RunFailure(error.code, str(error), error.retryable)
            return self.broken_off("error", str(error))
        self._forget()
        usage = model.cost.of(reply.usage)
        self.usage += usage
        return self._message(reply.content, reply.stop_reason, usage)

    def broken_off(self, stop_reason: str, error: str | None) -> AssistantMessage:
        """Return a message of what was said when the response ended early."""
        said: list[Block] = []
        if self._thoughts:
            said.append(ThinkingBlock("".join(self._thoughts)))
        if self._pieces:
            said.append(TextBlock(self.partial))
        return self._message(tuple(said), stop_reason, Usage(), error)

    def _forget(self) -> None:
        self._pieces.clear()
        self._thoughts.clear()

    def _message(
        self, content: tuple[Block, ...], stop_reason: str, usage: Usage, error: str | None = None
    ) -> AssistantMessage:
        api = self._chosen[0].api if self._chosen else ""
        return AssistantMessage(
            content, api, self.provider, self.model, usage, stop_reason, self._now_ms(), error
        )

    def _say(self, delta: str) -> None:
        self._pieces.append(delta)
        self._emit(MessageUpdate(delta))

    def _think(self, delta: str) -> None:
        self._thoughts.append(delta)
        self._emit(ThinkingUpdate(delta))


def _silent(model: ModelInfo, usage: Usage) -> ModelError:
    """Return why a response says nothing: z.ai tells a full window by its count of tokens alone."""
    if usage.input + usage.cache_read + usage.cache_write > model.context_window:
        return ModelOverflowError(f"The conversation is too long for {model.ref}.")
    return ModelEmptyReplyError(f"{model.ref} answered nothing.")
