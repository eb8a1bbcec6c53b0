"""Protocols of a model API."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from skerry.model.message import Block, Cost, Message, TextBlock, ToolCall, Usage, image_chars, size
from skerry.model.thinking import LEVELS, ThinkingLevel
from skerry.model.tool import ToolSpec
from skerry.ports.model_candidates import CallTarget, Candidates

_MILLION: Final = 1_000_000


class ModelCost(Struct, frozen=True):
    """Prices of a million tokens, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    known: bool = True
    """True when the price is known; otherwise the cost of a call is recorded as unknown."""

    def of(self, usage: Usage) -> Usage:
        """Returns the usage with its price: each count times its price for a million."""
        parts = (
            usage.input * self.input / _MILLION,
            usage.output * self.output / _MILLION,
            usage.cache_read * self.cache_read / _MILLION,
            usage.cache_write * self.cache_write / _MILLION,
        )
        return msgspec.structs.replace(usage, cost=Cost(*parts, total=sum(parts)))


UNPRICED: Final = ModelCost(known=False)
"""Cost of a model without a known price."""


class ModelInfo(Struct, frozen=True):
    """One model and what is known of it. `ref` is `provider/id`."""

    provider: str
    id: str
    name: str
    context_window: int = 200_000
    max_tokens: int = 8192
    supports_tools: bool = True
    reasoning: bool = False
    """True when the model can reason before it answers."""
    input: frozenset[str] = frozenset({"text"})
    """Kinds of input that the model accepts: `text`, `image`."""
    cost: ModelCost = UNPRICED
    api: str = "openai-completions"
    """The wire format in which it is asked."""
    prompt_limit: int | None = None
    """Tokens that the system prompt may have; None is no limit of its own."""
    note: str = ""
    """Note about the model for people, or empty; shown on the page."""
    thinking: tuple[ThinkingLevel, ...] = ()
    """The levels that it has where it can think; empty is all."""

    @property
    def levels(self) -> tuple[ThinkingLevel, ...]:
        """Returns how much it can think."""
        if not self.reasoning:
            return (ThinkingLevel.OFF,)
        return self.thinking or LEVELS

    @property
    def ref(self) -> str:
        """Returns `provider/id`."""
        return f"{self.provider}/{self.id}"


class WireForm(Protocol):
    """A conversation as an API wants it; a message may depend on those before it."""

    def add(self, message: Message) -> None:
        """Takes the next message."""
        ...

    def keep(self, count: int) -> None:
        """Forgets all messages but the first `count`."""
        ...


W = TypeVar("W", bound=WireForm)


class History:
    """A conversation for the model, oldest first. It grows, and now and then a message changes.

    It keeps its wire form for each API, so that a turn encodes only what is new.
    """

    __slots__ = ("_forms", "_images", "ends", "messages")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = []
        self.ends: list[int] = []
        """Approximate number of characters in the conversation up to the end of each message."""
        self._images = 0
        self._forms: dict[str, tuple[int, WireForm]] = {}
        for message in messages:
            self.append(message)

    @property
    def weight(self) -> int:
        """Returns about how many characters are kept, the base64 of images included."""
        return (self.ends[-1] if self.ends else 0) + self._images

    def append(self, message: Message) -> None:
        """Adds a message at the end."""
        self.messages.append(message)
        self._images += image_chars(message)
        self.ends.append((self.ends[-1] if self.ends else 0) + size(message))

    def put(self, index: int, message: Message) -> None:
        """Puts a message in place of another; those behind it are encoded anew."""
        behind = self.messages[index + 1 :]
        self.cut(index)
        for item in (message, *behind):
            self.append(item)

    def cut(self, count: int) -> None:
        """Forgets all messages but the first `count`."""
        self._images -= sum(map(image_chars, self.messages[count:]))
        del self.messages[count:], self.ends[count:]
        for name, (accepted, form) in self._forms.items():
            form.keep(count)
            self._forms[name] = min(accepted, count), form

    def form(self, name: str, begin: Callable[[], W]) -> W:
        """Returns the wire form of `name`, after it took every message; `begin` makes a new one.

        Each message is added once.
        """
        count, form = self._forms.get(name) or (0, begin())
        for message in self.messages[count:]:
            form.add(message)
        self._forms[name] = len(self.messages), form
        return cast("W", form)  # a name stands for one kind of form


class ModelRequest(Struct, frozen=True):
    """One call: the system prompt, the conversation, the tools offered, how much to think."""

    model: ModelInfo
    system: str
    history: History
    tools: tuple[ToolSpec, ...] = ()
    first: int = 0
    """Index of the first message to send: those before it do not fit the model's window."""
    thinking: ThinkingLevel = ThinkingLevel.OFF
    session_id: str = ""
    """Names the conversation to providers that cache by it, or empty."""


class ModelReply(Struct, frozen=True):
    """A complete response. `stop_reason` is `stop`, `length` or `toolUse`."""

    content: tuple[Block, ...]
    stop_reason: str
    usage: Usage

    @property
    def text(self) -> str:
        """Returns the text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Returns the tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


def _unheard(_: str) -> None:
    """Hears nothing."""


def _uncounted(_: Usage) -> None:
    """Counts nothing."""


class ReplyListener(Struct, frozen=True):
    """Hears a response while it comes; each piece is what one network read added."""

    on_text: Callable[[str], None] = _unheard
    on_thinking: Callable[[str], None] = _unheard
    on_note: Callable[[str], None] = _unheard
    """Receives a note for the person about how the model was called, as a sentence."""
    on_spent: Callable[[Usage], None] = _uncounted
    """Receives billed tokens that no reply contains: of a try that failed or was given up after the
    provider had counted."""


class ModelProvider(Protocol):
    """One model API, which pushes text as it comes.

    It is not an async generator, because one that is left open inside a cancelled scope is
    finalised in the wrong task.
    """

    @property
    def api(self) -> str:
        """Returns the wire format, such as `openai-completions`."""
        ...

    async def complete(self, request: ModelRequest, hear: ReplyListener) -> ModelReply:
        """Returns the response; tells `hear` what each network read added, in order.

        Cancelling is how a run is aborted: the connection is closed, and what `hear` got stays
        with the caller.

        Raises:
            ModelError: one of its leaves, classed by status first and text second. A stream that
                ends without its finish marker is `ModelStreamCutError`.
        """
        ...


class ModelState(StrEnum):
    """Availability of the model."""

    READY = "ready"
    STARTING = "starting"
    UNAVAILABLE = "unavailable"


class RestingProfile(Struct, frozen=True):
    """A credential that is not asked for a model for a while, after failures."""

    profile: str
    """`agent/provider:name`, or `environment/provider` for a key without a profile."""
    model: str
    reason: str
    """`rate_limit`, `overloaded`, `auth`, `billing` or `sign_in`."""
    until: int
    """Milliseconds since 1970; the end of the year 9999 is until a person signs in again."""


class ModelOffer(Struct, frozen=True):
    """A local model server that was found, and gets no conversation until the owner confirms it."""

    id: str
    name: str
    address: str
    """Host and port."""
    owner: str = ""
    """The user of the machine who runs it; empty where the system does not tell."""
    before: str = ""
    """The user for whom it was confirmed, where that is another one."""

    @property
    def text(self) -> str:
        """Returns the description of the offer for people."""
        if self.before:
            return (
                f"{self.name} on {self.address} was confirmed as run by user {self.before};"
                f" now user {self.owner or '(not told)'} listens there, so it is not used."
            )
        runner = (
            f"run by user {self.owner}" if self.owner else "this system does not tell who runs it"
        )
        return f"{self.name} answers on {self.address} ({runner})."

    @property
    def remedy(self) -> str:
        """Returns the command with which a person accepts the offer."""
        return f"Use it? skerry models trust {self.id}"


class ModelFailure(Struct, frozen=True):
    """Reason why the last call of a model failed."""

    code: str
    """Code, such as `model.auth`."""
    message: str
    remedy: str
    at: int
    """Milliseconds since 1970."""


class ModelStatus(Struct, frozen=True):
    """State of the model for the page and `status`: its name, its availability, and the remedy."""

    state: ModelState
    model: ModelInfo | None
    message: str = ""
    remedy: str = ""
    resting: tuple[RestingProfile, ...] = ()
    """Models that cool down now, the one that is available first in front."""
    offers: tuple[ModelOffer, ...] = ()
    """Local servers that the owner has to confirm."""
    failure: ModelFailure | None = None
    """Failure of the model's last call; None when it answered, or was not called yet."""
    latency_ms: int | None = None
    """Latency of the trial call made just now, in milliseconds."""


class Offering(Struct, frozen=True):
    """The models of providers, as they say themselves."""

    models: tuple[ModelInfo, ...]
    problems: tuple[str, ...] = ()
    """Providers that returned no list, in sentences; their known models are listed instead."""


class Models(Protocol):
    """All models that can be used, and which one is."""

    async def choose(self, ref: str | None) -> tuple[ModelProvider, ModelInfo]:
        """Returns the model that `ref` (`provider/model`) names; None is the first usable.

        Raises:
            ModelUnavailableError: nothing is usable; the message says why and what to do.
        """
        ...

    def tries(self, target: CallTarget) -> Candidates:
        """Returns the candidates of a call, in the order in which they are asked."""
        ...

    async def listing(self) -> list[ModelInfo]:
        """Returns the models that can be used now, the one in use first."""
        ...

    async def offered(self, setup: "ModelSetup | None" = None) -> Offering:
        """Asks the providers that can be used which models they have, or the one of `setup`."""
        ...

    async def status(self) -> ModelStatus:
        """Returns which model answers now, without starting one."""
        ...

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        """Keeps that the owner uses a local server as it runs now, or no longer.

        Raises:
            ModelUnavailableError: there is no local server of that name.
            ModelConnectionError: it does not listen.
            StateError: it cannot be kept.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """Settings that a person enters for a better model; empty fields keep the configured value."""

    provider: str = ""
    """A known provider (`openai`, `openrouter`, ...) or a name of one's own with `base_url`."""
    model: str = ""
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    untried: bool = False
    """Saves the settings without a trial call."""


class ModelPick(Struct, frozen=True):
    """Choice among the usable models."""

    ref: str | None = None
    """`provider/model` or an alias; None with no file lets the order of choice decide again."""
    file: str | None = None
    """A GGUF file on the gateway's machine, for the embedded model."""
    pin: bool = False
    """Makes the chosen file answer regardless of other models that are found."""


class Setup(Protocol):
    """Changes which model answers, durably and at once."""

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        """Tries the choice, writes it into `skerry.json` and uses it from the next run on.

        Raises:
            ConfigError: it cannot be written or makes no sense; nothing changed.
            ModelError: it was tried and failed; nothing changed.
        """
        ...

    async def use_model(self, pick: ModelPick) -> ModelStatus:
        """Writes the choice into `skerry.json` and uses it from the next run on.

        Raises:
            ConfigError: it cannot be written; nothing changed.
            ModelUnavailableError: the named model cannot be used; nothing changed.
        """
        ...
