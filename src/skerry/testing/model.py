"""Models that play a script: in the process, and behind a real loopback socket.

A reply is a sequence of steps: `str` is text, pushed on its own; `ThinkingBlock` is thinking,
pushed likewise; `ToolCall` is a call; `ReplyGate` waits until the test opens it; `ModelError` is
raised. `model_server` has three more kinds of steps.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import anyio
import msgspec

from skerry.model.errors import ModelError, ModelRequestError, ModelUnavailableError
from skerry.model.message import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from skerry.ports.model import (
    ModelInfo,
    ModelProvider,
    ModelReply,
    ModelRequest,
    ModelSetup,
    ModelState,
    ModelStatus,
    Offering,
    ReplyListener,
)
from skerry.ports.model_candidates import CallTarget, Candidates, SingleCandidate

_FENCE = re.compile(
    r"\A(?:<((?:message-facts|untrusted-context) [^<>]*+)>.*?</\1>\s*)*"
    r"(?:<(untrusted-message [^<>]*+)>\n[^\n]*\n\n(.*)\n</\2>\s*\Z)?",
    re.DOTALL,
)
_RECALLED = re.compile(r"\A<(recalled-memory [^<>]*+)>.*?</\1>\s*", re.DOTALL)

MODEL = ModelInfo("test", "script", "Script", context_window=200_000)


class ReplyGate:
    """A place in a reply where it waits, so that a test can act exactly there."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()

    def open(self) -> None:
        """Lets the reply go on."""
        self.opened.set()

    async def hold(self) -> None:
        """Says that it was reached; waits until it is open."""
        self.reached.set()
        await self.opened.wait()


Step = str | ThinkingBlock | ToolCall | ReplyGate | ModelError


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """Request of a model: a copy, because the conversation continues."""

    request: ModelRequest
    messages: tuple[Message, ...]
    last: str
    """The text of the last message."""


class ScriptedModel:
    """A model API in the process.

    `script` gives one reply per call, or is a function that gives the reply to a request, such as
    `echo`. A call beyond the script fails, and says so.
    """

    def __init__(
        self, script: Iterable[Sequence[Step]] | Callable[[ModelRequest], Sequence[Step]] = ()
    ) -> None:
        if callable(script):
            self._reply = script
        else:
            replies = iter(list(script))
            over = ModelRequestError("the script of the test's model has no reply left")
            self._reply = lambda _: next(replies, [over])
        self.seen: list[SeenRequest] = []
        """Every request, oldest first."""

    @property
    def api(self) -> str:
        """Returns `script`."""
        return "script"

    async def complete(self, request: ModelRequest, hear: ReplyListener) -> ModelReply:
        """Plays the next reply."""
        self.seen.append(SeenRequest(request, tuple(request.history.messages), last_text(request)))
        blocks: list[Block] = []
        pieces = 0
        for step in self._reply(request):
            await anyio.lowlevel.checkpoint()
            match step:
                case str():
                    pieces += 1
                    _say(blocks, step)
                    hear.on_text(step)
                case ThinkingBlock():
                    blocks.append(step)
                    if step.thinking:
                        hear.on_thinking(step.thinking)
                case ToolCall():
                    blocks.append(step)
                case ReplyGate():
                    await step.hold()
                case ModelError():
                    raise step
        size = len(request.history.messages)
        usage = Usage(input=size, output=pieces, total_tokens=size + pieces)
        calls = any(isinstance(block, ToolCall) for block in blocks)
        return ModelReply(tuple(blocks), "toolUse" if calls else "stop", usage)


def _say(blocks: list[Block], text: str) -> None:
    """Adds text to the block that is open, or as a new one."""
    last = blocks[-1] if blocks else None
    if isinstance(last, TextBlock):
        blocks[-1] = TextBlock(last.text + text)
    else:
        blocks.append(TextBlock(text))


def last_text(request: ModelRequest) -> str:
    """Returns the text of the last user message or tool result."""
    for message in reversed(request.history.messages):
        if isinstance(message, UserMessage | ToolResultMessage):
            return message.text
    return ""


def echo(request: ModelRequest) -> Sequence[Step]:
    """Returns a reply that depends only on the last message; a script that never ends."""
    messages = request.history.messages
    after_tool = bool(messages) and isinstance(messages[-1], ToolResultMessage)
    return echo_steps(last_text(request), len(messages), after_tool=after_tool)


def echo_steps(text: str, number: int, *, after_tool: bool) -> Sequence[Step]:
    """Returns the steps of an echo: `call NAME {JSON}` calls a tool, other words are repeated.

    `number` of messages makes the call's id. What the gateway tells before them is passed over, and
    before a call what the memory recalls.
    """
    text = unfenced(_told_before(text))
    if after_tool:
        return ["result: ", text]
    call = unfenced(_told_before(_RECALLED.sub("", text)))
    if call.startswith("call "):
        name, _, arguments = call.removeprefix("call ").partition(" ")
        return [ToolCall(f"call_{number}", name, msgspec.json.decode(arguments or "{}"))]
    return ["echo: ", text]


def unfenced(text: str) -> str:
    """Returns a message of a platform without the facts and the fence that the gateway adds."""
    match = _FENCE.match(text)
    return (match[3] or text[match.end() :]) if match else text


def _told_before(text: str) -> str:
    """Returns a message without what the gateway puts before it."""
    return text.partition("]\n\n")[2] if text.startswith("[From the gateway: ") else text


@dataclass(slots=True)
class ScriptedModels:
    """All models that can be used: one. Without a `provider` none can."""

    provider: ModelProvider | None
    info: ModelInfo = MODEL
    chosen: list[str | None] = field(default_factory=list)
    """The refs that were asked for, oldest first."""
    unknown: str | None = None
    """A ref that names no model."""

    async def choose(self, ref: str | None) -> tuple[ModelProvider, ModelInfo]:
        """Returns the model for any `ref`."""
        self.chosen.append(ref)
        if self.provider is None:
            raise ModelUnavailableError("No model is configured.")
        if ref is not None and ref == self.unknown:
            raise ModelUnavailableError(f"There is no model {ref}.")
        return self.provider, self.info

    def tries(self, target: CallTarget) -> Candidates:
        """Returns the model as the one candidate."""
        return SingleCandidate(lambda: self.choose(target.reference))

    async def listing(self) -> list[ModelInfo]:
        """Returns the model."""
        return [] if self.provider is None else [self.info]

    async def offered(self, setup: ModelSetup | None = None) -> Offering:
        """Returns the model, as its provider would name it."""
        models = await self.listing()
        return Offering(
            tuple(model for model in models if not setup or model.provider == setup.provider)
        )

    async def status(self) -> ModelStatus:
        """Returns whether there is one."""
        if self.provider is None:
            return ModelStatus(ModelState.UNAVAILABLE, None, "No model is configured.", "Name one.")
        return ModelStatus(ModelState.READY, self.info)

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        """Finds no local server."""
        raise ModelUnavailableError(f"There is no local server {server!r}: {is_trusted}.")
