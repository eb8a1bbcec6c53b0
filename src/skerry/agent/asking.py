"""What the model of one run is sent: the system prompt, the conversation that fits, the tools."""

from typing import Final

from skerry.agent.pipeline import Pipeline, with_context
from skerry.agent.prompt import joined
from skerry.agent.prompts import Asked
from skerry.agent.runtime import Runtime
from skerry.config.root import Config
from skerry.lanes.running import ActiveRun
from skerry.model import message
from skerry.model.message import UserMessage
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.model.tool import ToolSpec
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.sessions.window import CHARS_PER_TOKEN, first_that_fits

_NO_PROMPT: Final = message.user("", 0)


class Asking:
    """Builds each request of one run. The system prompt is built once, with the first."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        active: ActiveRun,
        pipeline: Pipeline,
        history: History,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._active = active
        self._agent = active.request.key.agent
        self._pipeline = pipeline
        self._history = history
        self._own = active.settings or SessionSettings()
        self.prompt = _NO_PROMPT
        """What the person said."""
        self._place = 0
        self._system: str | None = None

    @property
    def begun(self) -> bool:
        """Return whether a request was built."""
        return self._system is not None

    def begin_with(self, prompt: UserMessage) -> None:
        """Note what the person said; it is the last message of the history."""
        self.prompt, self._place = prompt, len(self._history.messages) - 1

    def end(self) -> None:
        """Take back what was put before the prompt: it was for this run."""
        if self._history.messages[self._place] is not self.prompt:
            self._history.put(self._place, self.prompt)
        workspace = self._config.workspace(self._agent)
        self._runtime.prompts.ritual.finish(workspace, self._active.request.key)

    async def request(self, model: ModelInfo) -> ModelRequest:
        """Return the next request to `model`."""
        tools = self._runtime.tools.values() if model.supports_tools else ()
        specs = tuple(tool.spec for tool in tools)
        if self._system is None:
            self._system = await self._begin(model, specs)
        history = self._history
        system = await self._pipeline.llm_input(self._system, model, history.messages)
        budget = model.context_window - model.max_tokens - len(system) // CHARS_PER_TOKEN
        first = first_that_fits(history, budget)
        thinking = self._thinking(model)
        session_id = self._active.session_id
        return ModelRequest(model, system, history, specs, first, thinking, session_id)

    def _thinking(self, model: ModelInfo) -> ThinkingLevel:
        """Return how much it is to think: as the request, the session or the configuration says."""
        if not model.reasoning:
            return ThinkingLevel.OFF
        asked = self._active.request.thinking or self._own.thinking_level
        return asked or self._config.thinking(self._agent) or ThinkingLevel.LOW

    async def _begin(self, model: ModelInfo, specs: tuple[ToolSpec, ...]) -> str:
        """Return the system prompt of the run; put before the prompt what plugins add to it."""
        history, limit = self._history, model.prompt_limit
        built = await self._built(model, specs)
        system, context = await self._pipeline.prompt(self.prompt, built, model, history.messages)
        if context:
            history.put(self._place, with_context(self.prompt, context))
        return system if limit is None else system[: limit * CHARS_PER_TOKEN]

    async def _built(self, model: ModelInfo, specs: tuple[ToolSpec, ...]) -> str:
        runtime = self._runtime
        asked = Asked(self._active.request, self._active.session_id, self._pipeline.context)
        now = runtime.clock.now_ms()
        prompt = await runtime.prompts.build(asked, self._config, model, specs, runtime.hooks, now)
        return joined(prompt.sections)
