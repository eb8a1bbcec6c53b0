"""Models that play a script, inside the process.

A reply is a sequence of steps: `str` is a delta of text, `ThinkingBlock` one of thinking;
`ToolCall` is a call; `ReplyGate` waits until the test opens it; `ModelError` is raised.
`model_server` serves scripts over HTTP and has three more kinds of steps.
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
    """Step at which a reply waits, so that a test can act at this point."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()

    def open(self) -> None:
        """Lets the reply continue."""
        self.opened.set()

    async def hold(self) -> None:
        """Sets `reached`; waits until the gate is open."""
        self.reached.set()
        await self.opened.wait()


Step = str | ThinkingBlock | ToolCall | ReplyGate | ModelError


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """Request to a model, with a copy of its messages, because the conversation continues."""

    request: ModelRequest
    messages: tuple[Message, ...]
    last: str
    """Text of the last message."""


class ScriptedModel:
    """Model API inside the process.

    `script` has one reply per call, or is a function from a request to a reply, such as `echo`. A
    call after the last reply raises `ModelRequestError`.
    """

    def __init__(
        self, script: Iterable[Sequence[Step]] | Callable[[ModelRequest], Sequence[Step]] = ()
    ) -> None:
        if callable(script):
            self._reply = script
        else:
            replies = iter(list(script))
            over = ModelRequestError("the script of the test's model has no further reply")
            self._reply = lambda _: next(replies, [over])
        self.requests: list[SeenRequest] = []
        """All requests, oldest first."""

    @property
    def api(self) -> str:
        """Returns `script`."""
        return "script"

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Plays the next reply."""
        self.requests.append(
            SeenRequest(request, tuple(request.history.messages), last_text(request))
        )
        blocks: list[Block] = []
        deltas = 0
        for step in self._reply(request):
            await anyio.lowlevel.checkpoint()
            match step:
                case str():
                    deltas += 1
                    _append_text(blocks, step)
                    listener.on_text(step)
                case ThinkingBlock():
                    blocks.append(step)
                    if step.thinking:
                        listener.on_thinking(step.thinking)
                case ToolCall():
                    blocks.append(step)
                case ReplyGate():
                    await step.hold()
                case ModelError():
                    raise step
        size = len(request.history.messages)
        usage = Usage(input=size, output=deltas, total_tokens=size + deltas)
        calls = any(isinstance(block, ToolCall) for block in blocks)
        return ModelReply(tuple(blocks), "toolUse" if calls else "stop", usage)


def _append_text(blocks: list[Block], text: str) -> None:
    """Appends text to the last block if it is text, or as a new block."""
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
    """Returns a reply to the last message alone: an endless script."""
    messages = request.history.messages
    after_tool = bool(messages) and isinstance(messages[-1], ToolResultMessage)
    return echo_steps(last_text(request), len(messages), after_tool=after_tool)


def echo_steps(text: str, number: int, *, after_tool: bool) -> Sequence[Step]:
    """Returns the steps of an echo: `call NAME {JSON}` calls a tool, other text is repeated.

    The id of a call is `call_` and `number`, the number of messages. Notices of the gateway before
    the text are skipped, and recalled memories before a call.
    """
    text = unfenced(_without_notice(text))
    if after_tool:
        return ["result: ", text]
    call = unfenced(_without_notice(_RECALLED.sub("", text)))
    if call.startswith("call "):
        name, _, arguments = call.removeprefix("call ").partition(" ")
        return [ToolCall(f"call_{number}", name, msgspec.json.decode(arguments or "{}"))]
    return ["echo: ", text]


def unfenced(text: str) -> str:
    """Returns a message of a platform without the facts and the fence that the gateway adds."""
    match = _FENCE.match(text)
    return (match[3] or text[match.end() :]) if match else text


def _without_notice(text: str) -> str:
    """Returns a message without the gateway's notice before it."""
    return text.partition("]\n\n")[2] if text.startswith("[From the gateway: ") else text


@dataclass(slots=True)
class ScriptedModels:
    """Model source with one model; without a `provider` it has none."""

    provider: ModelProvider | None
    info: ModelInfo = MODEL
    chosen: list[str | None] = field(default_factory=list)
    """Requested refs, oldest first."""
    unknown_ref: str | None = None
    """A ref without a model."""

    async def choose(self, ref: str | None) -> tuple[ModelProvider, ModelInfo]:
        """Returns the model for any `ref`."""
        self.chosen.append(ref)
        if self.provider is None:
            raise ModelUnavailableError("No model is configured.")
        if ref is not None and ref == self.unknown_ref:
            raise ModelUnavailableError(f"There is no model {ref}.")
        return self.provider, self.info

    def tries(self, target: CallTarget) -> Candidates:
        """Returns the model as the only candidate."""
        return SingleCandidate(lambda: self.choose(target.reference))

    async def listing(self) -> list[ModelInfo]:
        """Returns the model."""
        return [] if self.provider is None else [self.info]

    async def offered(self, setup: ModelSetup | None = None) -> Offering:
        """Returns the model as an offer of its provider."""
        models = await self.listing()
        return Offering(
            tuple(model for model in models if not setup or model.provider == setup.provider)
        )

    async def status(self) -> ModelStatus:
        """Returns `READY` with the model, or `UNAVAILABLE` without a provider."""
        if self.provider is None:
            return ModelStatus(ModelState.UNAVAILABLE, None, "No model is configured.", "Name one.")
        return ModelStatus(ModelState.READY, self.info)

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        """Raises `ModelUnavailableError`: there is no local server."""
        raise ModelUnavailableError(f"There is no local server {server!r}: {is_trusted}.")
