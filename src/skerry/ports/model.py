"""What the core asks of a model API."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from skerry.model.message import Block, Cost, Message, TextBlock, ToolCall, Usage, image_chars, size
from skerry.model.thinking import LEVELS, ThinkingLevel
from skerry.model.tool import ToolSpec
from skerry.ports.tries import Tries, Wanted

_MILLION: Final = 1_000_000


class ModelCost(Struct, frozen=True):
    """What a million tokens cost, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    known: bool = True
    """Whether somebody said so; else what a call cost is not known, and counts as that."""

    def of(self, usage: Usage) -> Usage:
        """Return the usage with its price: each count times its price for a million."""
        parts = (
            usage.input * self.input / _MILLION,
            usage.output * self.output / _MILLION,
            usage.cache_read * self.cache_read / _MILLION,
            usage.cache_write * self.cache_write / _MILLION,
        )
        return msgspec.structs.replace(usage, cost=Cost(*parts, total=sum(parts)))


UNPRICED: Final = ModelCost(known=False)
"""Of a model of which nobody says what it costs."""


class ModelInfo(Struct, frozen=True):
    """One model and what is known of it. `ref` is `provider/id`."""

    provider: str
    id: str
    name: str
    context_window: int = 200_000
    max_tokens: int = 8192
    supports_tools: bool = True
    reasoning: bool = False
    """Whether it can think before it answers."""
    input: frozenset[str] = frozenset({"text"})
    """What it reads: `text`, `image`."""
    cost: ModelCost = UNPRICED
    api: str = "openai-completions"
    """The wire format in which it is asked."""
    prompt_limit: int | None = None
    """Tokens that the system prompt may have; None is no limit of its own."""
    note: str = ""
    """What a person should know of it, or empty; shown on the page."""
    thinking: tuple[ThinkingLevel, ...] = ()
    """The levels that it has where it can think; empty is all."""

    @property
    def levels(self) -> tuple[ThinkingLevel, ...]:
        """Return how much it can think."""
        if not self.reasoning:
            return (ThinkingLevel.OFF,)
        return self.thinking or LEVELS

    @property
    def ref(self) -> str:
        """Return `provider/id`."""
        return f"{self.provider}/{self.id}"


class WireForm(Protocol):
    """A conversation as an API wants it; a message may depend on those before it."""

    def add(self, message: Message) -> None:
        """Take the next message."""
        ...

    def keep(self, count: int) -> None:
        """Forget all messages but the first `count`."""
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
        """For each message, about how many characters the conversation has up to its end."""
        self._images = 0
        self._forms: dict[str, tuple[int, WireForm]] = {}
        for message in messages:
            self.append(message)

    @property
    def weight(self) -> int:
        """Return about how many characters are kept, the base64 of images included."""
        return (self.ends[-1] if self.ends else 0) + self._images

    def append(self, message: Message) -> None:
        """Add a message at the end."""
        self.messages.append(message)
        self._images += image_chars(message)
        self.ends.append((self.ends[-1] if self.ends else 0) + size(message))

    def put(self, place: int, message: Message) -> None:
        """Put a message in place of another; those behind it are encoded anew."""
        behind = self.messages[place + 1 :]
        self.cut(place)
        for one in (message, *behind):
            self.append(one)

    def cut(self, count: int) -> None:
        """Forget all messages but the first `count`."""
        self._images -= sum(map(image_chars, self.messages[count:]))
        del self.messages[count:], self.ends[count:]
        for name, (taken, form) in self._forms.items():
            form.keep(count)
            self._forms[name] = min(taken, count), form

    def form(self, name: str, begin: Callable[[], W]) -> W:
        """Return the wire form of `name`, after it took every message; `begin` makes a new one.

        Each message is added once.
        """
        taken, form = self._forms.get(name) or (0, begin())
        for message in self.messages[taken:]:
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
        """Return the text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


def _unheard(_: str) -> None:
    """Hear nothing."""


def _uncounted(_: Usage) -> None:
    """Count nothing."""


class Listener(Struct, frozen=True):
    """Hears a response while it comes; each piece is what one network read added."""

    on_text: Callable[[str], None] = _unheard
    on_thinking: Callable[[str], None] = _unheard
    on_note: Callable[[str], None] = _unheard
    """What a person should know of how it was asked, in a sentence."""
    on_spent: Callable[[Usage], None] = _uncounted
    """Told of tokens that are billed and stand in no reply: of a try that failed or was given up
    after the provider had counted."""


class ModelProvider(Protocol):
    """One model API, which pushes text as it comes.

    It is not an async generator, because one that is left open inside a cancelled scope is
    finalised in the wrong task.
    """

    @property
    def api(self) -> str:
        """Return the wire format, such as `openai-completions`."""
        ...

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Return the response; tell `hear` what each network read added, in order.

        Cancelling is how a run is aborted: the connection is closed, and what `hear` got stays
        with the caller.

        Raises:
            ModelError: one of its leaves, classed by status first and text second. A stream that
                ends without its finish marker is `ModelStreamCutError`.
        """
        ...


class ModelState(StrEnum):
    """Whether messages can be answered."""

    READY = "ready"
    STARTING = "starting"
    UNAVAILABLE = "unavailable"


class Resting(Struct, frozen=True):
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
        """Return what a person should know of it."""
        if self.before:
            return (
                f"{self.name} on {self.address} was confirmed as run by user {self.before};"
                f" now user {self.owner or '(not told)'} listens there, so it is not used."
            )
        who = f"run by user {self.owner}" if self.owner else "this system does not tell who runs it"
        return f"{self.name} answers on {self.address} ({who})."

    @property
    def remedy(self) -> str:
        """Return what a person can do."""
        return f"Use it? skerry models trust {self.id}"


class Failure(Struct, frozen=True):
    """How the last call of a model failed."""

    code: str
    """Such as `model.auth`."""
    message: str
    remedy: str
    at: int
    """Milliseconds since 1970."""


class ModelStatus(Struct, frozen=True):
    """What the page and `status` say of the model: which, whether, and what a person can do."""

    state: ModelState
    model: ModelInfo | None
    message: str = ""
    remedy: str = ""
    resting: tuple[Resting, ...] = ()
    """What is passed over now, what rests shortest in front."""
    offers: tuple[ModelOffer, ...] = ()
    """Local servers that the owner has to confirm."""
    failure: Failure | None = None
    """How the last call of the model failed; None where it answered, or was not asked yet."""
    latency_ms: int | None = None
    """How long it took to answer when it was tried just now."""


class Offering(Struct, frozen=True):
    """The models of providers, as they say themselves."""

    models: tuple[ModelInfo, ...]
    problems: tuple[str, ...] = ()
    """Who did not say, in sentences; of those the known models are listed."""


class Models(Protocol):
    """All models that can be used, and which one is."""

    async def choose(self, ref: str | None) -> tuple[ModelProvider, ModelInfo]:
        """Return the model that `ref` (`provider/model`) names; None is the first usable.

        Raises:
            ModelUnavailableError: nothing is usable; the message says why and what to do.
        """
        ...

    def tries(self, wanted: Wanted) -> Tries:
        """Return the candidates of a call, in the order in which they are asked."""
        ...

    async def listing(self) -> list[ModelInfo]:
        """Return the models that can be used now, the one in use first."""
        ...

    async def offered(self, setup: "ModelSetup | None" = None) -> Offering:
        """Ask the providers that can be used which models they have, or the one of `setup`."""
        ...

    async def status(self) -> ModelStatus:
        """Return which model answers now, without starting one."""
        ...

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        """Keep that the owner uses a local server as it runs now, or no longer.

        Raises:
            ModelUnavailableError: there is no local server of that name.
            ModelConnectionError: it does not listen.
            StateError: it cannot be kept.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """What a person enters to get a better model; empty fields keep what is configured."""

    provider: str = ""
    """A known provider (`openai`, `openrouter`, ...) or a name of one's own with `base_url`."""
    model: str = ""
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    untried: bool = False
    """Whether it is used without one call that tries it."""


class ModelPick(Struct, frozen=True):
    """Which of the models that can be used is to answer."""

    ref: str | None = None
    """`provider/model` or an alias; None with no file lets the order of choice decide again."""
    file: str | None = None
    """A GGUF file on the gateway's machine, for the embedded model."""
    pin: bool = False
    """Whether the file answers whatever else is found."""


class Setup(Protocol):
    """Changes which model answers, durably and at once."""

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        """Try the choice, write it into `skerry.json` and use it from the next run on.

        Raises:
            ConfigError: it cannot be written or makes no sense; nothing changed.
            ModelError: it was tried and failed; nothing changed.
        """
        ...

    async def use_model(self, pick: ModelPick) -> ModelStatus:
        """Write the choice into `skerry.json` and use it from the next run on.

        Raises:
            ConfigError: it cannot be written; nothing changed.
            ModelUnavailableError: the named model cannot be used; nothing changed.
        """
        ...
