"""Builds the model requests of a run: system prompt, the conversation that fits, tools.

Before each call, notes are flushed at the soft threshold, and the conversation is compacted at the
threshold. If the model refuses a conversation as too long, it is compacted further and sent again,
at most three times (openclaw-behaviour 6.2); after that a single message exceeds the window.
"""

from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct

from skerry.commands.table import CommandError
from skerry.lanes.active_runs import ContinuedRun
from skerry.model import message
from skerry.model.errors import ModelOverflowError
from skerry.model.message import (
    CHARS_PER_TOKEN,
    AssistantMessage,
    Message,
    UserMessage,
)
from skerry.model.run import CompactionResult, RunFailure
from skerry.model.session import SessionEntry
from skerry.model.thinking import ThinkingLevel, nearest
from skerry.model.tool import ToolSpec
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.runtime.compaction.compactor import CompactionTask, Compactor, tighter
from skerry.runtime.conversation import CachedConversation, as_read
from skerry.runtime.run_context import RunPlan
from skerry.runtime.run_hooks import RunHooks, with_context
from skerry.sessions.window import (
    TokenBudget,
    budget,
    first_that_fits,
    prune,
    shorten,
    token_count,
)
from skerry.workspace.prompt_builder import Prompt, PromptTarget

ATTEMPTS: Final = 3
SOFT_SHARE: Final = 4
"""Divisor: the soft threshold is at most this part of the room below the threshold."""
NOTHING_TO_SUMMARISE: Final = "There is nothing to summarise yet."


class WindowKeeper(Struct):
    """Keeps the conversation of one run within the window of its model."""

    compactor: Compactor
    conversation: CachedConversation
    moved: Callable[[list[int]], None]
    """Called with the number of each message's entry after the conversation was reloaded."""
    refused: int = 0
    """Number of times that the model refused the conversation as too long."""
    least: int = 0
    """Estimated tokens of the smallest refused request."""
    ended: SessionEntry | None = None
    """The session that expired at this run's message; its notes are flushed first."""
    _futile: int = 0
    """Number of messages for which no compaction was possible; more are tried again."""
    _last: CompactionTask | None = None

    async def before_call(self, model: ModelInfo, limits: TokenBudget, system: str) -> None:
        """Flushes notes or compacts, if a threshold is reached; cheap otherwise."""
        if self.ended is not None:
            ended, self.ended = self.ended, None
            await self._note(ended, system, limits)
        settings = self.compactor.config.agents.defaults.compaction
        history, since = self.conversation.history, self.conversation.since
        tokens = token_count(history, since, limits)
        threshold = limits.window - limits.reserve
        task = self._last = CompactionTask(model, limits, system, "threshold", tokens)
        soft = min(settings.memory_flush.soft_threshold_tokens, limits.room // SOFT_SHARE)
        if not settings.enabled or tokens <= threshold - soft:
            return
        if tokens > threshold:
            await self._compact(task)
        elif not self.conversation.flushed:
            self.conversation.flushed = True  # one attempt between two compactions
            messages = self.conversation.history.messages
            await self.compactor.flush(messages, system, limits)

    async def _note(self, ended: SessionEntry, system: str, limits: TokenBudget) -> None:
        """Flushes notes about an expired session (decisions 6, row 18)."""
        histories = self.compactor.runtime.histories
        before = await histories.get(ended.session_id, ended.tail + 1)
        if not before.flushed:
            messages = before.history.messages
            await self.compactor.flush(messages, system, limits, ended.session_id)
        histories.forget(ended.session_id)

    async def after_refusal(self, sent: int) -> bool:
        """Compacts a conversation that the model refused; returns whether it may be sent again.

        Args:
            sent: Estimated tokens of the refused request; the real window is smaller.
        """
        if self._last is None or self.refused >= ATTEMPTS:
            return False
        self.least = min(sent, self.least or sent)
        self.refused += 1
        task = tighter(self._last, self.least, self.refused - 1)
        task = CompactionTask(task.model, task.limits, task.system, "overflow", task.tokens)
        await self._compact(task)
        return True

    def fitting(self, limits: TokenBudget) -> TokenBudget:
        """Returns the limits, reduced after refusals of the model."""
        return limits.below(self.least).tighter(self.refused)

    async def on_demand(self, task: CompactionTask) -> CompactionResult:
        """Compacts at a person's request.

        Raises:
            CommandError: there is nothing to summarise.
        """
        result = await self._compact(task)
        if result is None:
            raise CommandError(NOTHING_TO_SUMMARISE)
        return result

    async def _compact(self, task: CompactionTask) -> CompactionResult | None:
        conversation, compactor = self.conversation, self.compactor
        count = len(conversation.history.messages)
        if task.trigger == "threshold" and count <= self._futile:
            return None
        result = await compactor.run(task, conversation.tail)
        if result is None:
            self._futile = count
            return None
        conversation.tail = result.tail
        session_id, histories = compactor.target.session_id, compactor.runtime.histories
        with anyio.CancelScope(shield=True):  # the rest of the run must use the stored state
            self.moved(await histories.load(conversation, session_id, result.tail + 1))
        return result


_NO_PROMPT: Final = message.user("", 0)
TOO_LONG: Final = (
    "It was summarised and shortened, and still does not fit. Nothing is lost. Send less at once,"
    " or choose a model with a larger window."
)
NOTHING_LOST: Final = "Every message is kept; /recall finds it."


class RequestBuilder:
    """Builds each request of one run. The system prompt is built once for each called model."""

    def __init__(
        self, plan: RunPlan, compactor: Compactor, conversation: CachedConversation
    ) -> None:
        self._plan = plan
        self._runtime = plan.runtime
        self._config = plan.config
        self._active = active = plan.active
        self._pipeline: RunHooks = compactor.pipeline
        self._conversation = conversation
        conversation.sent_from = 0
        self._history = conversation.history
        self.keeper = WindowKeeper(compactor, conversation, self._moved, ended=active.ended_before)
        self.prompt = _NO_PROMPT
        """The person's message."""
        self._fenced_prompt = self.prompt
        """The same for the model: facts about it, then the text; text of others in a fence."""
        self._noted_prompt = self.prompt
        """The same after the gateway's notices; it stays so in the conversation."""
        self._sent_prompt: Message = _NO_PROMPT
        self._prompt_index: int | None = 0
        self._model: ModelInfo | None = None
        """Model that the system prompt and the tools were built for."""
        self._system = ""
        self._specs: tuple[ToolSpec, ...] = ()
        self._compactions = 0
        self.notes: dict[str, None] = {}
        """Notes for the person about the model calls, in order."""
        self._tools = 0
        """Estimated tokens of the tools."""
        self._sent = 0
        """Estimated tokens of the last request."""

    @property
    def begun(self) -> bool:
        """Returns whether a request was built."""
        return self._model is not None

    def begin_with(self, prompt: UserMessage, continued: ContinuedRun | None = None) -> None:
        """Sets the person's message: the last of the history, or at the index in `continued`."""
        self.prompt = prompt
        self._fenced_prompt = self._noted_prompt = self._sent_prompt = as_read(prompt)
        last = len(self._history.messages) - 1
        self._prompt_index = continued.prompt_index if continued is not None else last

    def end(self) -> None:
        """Removes the context that plugins put before the prompt: it is only for this run."""
        self._put(self._noted_prompt)
        workspace = self._pipeline.context.workspace
        if workspace is not None:
            self._runtime.prompts.ritual.finish(workspace, self._active.request.key)

    async def request(self, model: ModelInfo) -> ModelRequest:
        """Returns the next request to `model`; compacts the conversation first if needed."""
        if model != self._model:
            await self._begin(model)
        conversation, defaults = self._conversation, self._config.agents.defaults
        limits = self._limits(model)
        await self.keeper.before_call(model, limits, self._system)
        if conversation.compactions != self._compactions:
            await self._begin(model)  # plugins may add context that was just summarised
        now = self._runtime.clock.now_ms()
        prune(self._history, conversation.view, defaults.context_pruning, model, now)
        sent, first, self._sent = self._fitting(model, limits)
        conversation.sent_from = first
        system = await self._pipeline.llm_input(self._system, model, sent.messages)
        thinking = self._thinking(model)
        session_id = self._active.session_id
        return ModelRequest(model, system, sent, self._specs, first, thinking, session_id)

    async def too_long(self, failure: RunFailure | None, response: AssistantMessage) -> bool:
        """Returns whether the model refused the request as too long and may be called again."""
        if failure is None or failure.code != ModelOverflowError.code or response.content:
            return False
        model, refused = self._model, self._sent
        while model is not None and await self.keeper.after_refusal(refused):
            _, _, tokens = self._fitting(model, self._limits(model))
            if tokens < refused:  # else it would be refused again
                return True
        return False

    def _limits(self, model: ModelInfo) -> TokenBudget:
        fixed = len(self._system) // CHARS_PER_TOKEN + self._tools
        return budget(model.context_window, fixed, self._config.agents.defaults.compaction)

    def _fitting(self, model: ModelInfo, limits: TokenBudget) -> tuple[History, int, int]:
        """Returns the messages that fit, the index of the first, and the number of all tokens."""
        keeper, conversation = self.keeper, self._conversation
        shorten(self._history, conversation.view, keeper.fitting(limits))
        sent = conversation.view.of(self._history)
        fixed = len(self._system) // CHARS_PER_TOKEN + self._tools
        room = model.context_window - model.max_tokens - len(self._system) // CHARS_PER_TOKEN
        room >>= keeper.refused
        if keeper.least:
            room = min(room, (keeper.least - fixed) * 3 // 4)
        first = first_that_fits(sent, room)
        chars = sent.ends[-1] - (sent.ends[first - 1] if first else 0) if sent.ends else 0
        return sent, first, fixed + chars // CHARS_PER_TOKEN

    def given_up(self, failure: RunFailure | None) -> RunFailure | None:
        """Returns the failure; if the request is too long, with an explanation and a remedy."""
        if failure is None or failure.code != ModelOverflowError.code:
            return failure
        return RunFailure(failure.code, f"{failure.message} {TOO_LONG}", remedy=failure.remedy)

    async def compact(self, instructions: str) -> str:
        """Compacts at the person's request; returns the answer.

        Raises:
            CommandError: there is nothing to summarise.
            ModelError: no model could be chosen.
        """
        target = self.keeper.compactor.target.target
        _, model = await self._runtime.models.choose(target.reference)
        limits = budget(model.context_window, 0, self._config.agents.defaults.compaction)
        tokens = token_count(self._history, self._conversation.since, limits)
        task = CompactionTask(model, limits, "", "manual", tokens, instructions)
        result = await self.keeper.on_demand(task)
        return f"⚙️ Compacted ({result.before:,} → {result.after:,} tokens). {NOTHING_LOST}"

    def _moved(self, numbers: list[int]) -> None:
        """Finds the prompt again in a reloaded conversation."""
        entry = self._active.entry
        self._prompt_index = numbers.index(entry) if entry in numbers and entry else None
        if not entry:  # hooks keep it out of the transcript
            self._history.append(self.prompt)
            self._prompt_index = len(self._history.messages) - 1
        if self._prompt_index is not None:
            self._history.put(self._prompt_index, self._sent_prompt)

    def _thinking(self, model: ModelInfo) -> ThinkingLevel:
        """Returns the thinking level for the model; adds a note if it is not the requested one."""
        requested, level = self._plan.thinking, ThinkingLevel.OFF
        if model.reasoning:
            level = nearest(requested, model.levels)
        if self._plan.thinking_asked and level is not requested:
            self.notes[f"{model.ref} has no thinking level {requested}; it used {level}."] = None
        return level

    async def _begin(self, model: ModelInfo) -> None:
        """Builds the system prompt for a model, and puts the context of plugins before the prompt.

        A fall-back model differs in tools, window and name, so the hooks are called for it too.
        """
        self._put(self._fenced_prompt)
        history, limit = self._history, model.prompt_limit
        plan = self._plan
        await self._runtime.tools.prepare(plan.caller)
        tools = self._runtime.tools.offered(plan.caller, plan.config, model)
        self._specs = specs = tuple([tool.spec for tool in tools])
        built = await self._built(model, specs)
        self._noted_prompt = self._fenced_prompt
        if built.note:
            self._noted_prompt = with_context(self._fenced_prompt, built.note)
        self._tools = built.tool_chars // CHARS_PER_TOKEN
        self._compactions = self._conversation.compactions
        system, context = await self._pipeline.prompt(
            self.prompt, built.text, model, history.messages, self._compactions
        )
        noted = self._noted_prompt
        self._put(with_context(noted, context) if context else noted)
        self._system = system if limit is None else system[: limit * CHARS_PER_TOKEN]
        self._model = model

    def _put(self, prompt: Message) -> None:
        """Replaces the person's message in the history by `prompt`."""
        self._sent_prompt = prompt
        index = self._prompt_index
        if index is not None and self._history.messages[index] is not prompt:
            self._history.put(index, prompt)

    async def _built(self, model: ModelInfo, specs: tuple[ToolSpec, ...]) -> Prompt:
        runtime = self._runtime
        target = PromptTarget(
            self._active.request,
            self._active.session_id,
            self._pipeline.context,
            self._active.entry,
        )
        now = runtime.clock.now_ms()
        return await runtime.prompts.build(target, self._config, model, specs, runtime.hooks, now)
