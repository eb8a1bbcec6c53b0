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
    """Prices in US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    is_priced: bool = True
    """False if the price is unknown; the cost of a call is then recorded as unknown."""

    def of(self, usage: Usage) -> Usage:
        """Returns the usage with its cost in US dollars: tokens x price / 1,000,000, by kind."""
        parts = (
            usage.input * self.input / _MILLION,
            usage.output * self.output / _MILLION,
            usage.cache_read * self.cache_read / _MILLION,
            usage.cache_write * self.cache_write / _MILLION,
        )
        return msgspec.structs.replace(usage, cost=Cost(*parts, total=sum(parts)))


UNPRICED: Final = ModelCost(is_priced=False)
"""Cost of a model whose price is unknown."""


class ModelInfo(Struct, frozen=True):
    """Properties of one model. `ref` is `provider/id`."""

    provider: str
    id: str
    name: str
    context_window: int = 200_000
    """Tokens of prompt and response together."""
    max_tokens: int = 8192
    """Tokens of one response."""
    supports_tools: bool = True
    reasoning: bool = False
    """True if the model can reason before it answers."""
    input: frozenset[str] = frozenset({"text"})
    """Kinds of input that the model accepts: `text`, `image`."""
    cost: ModelCost = UNPRICED
    api: str = "openai-completions"
    """Wire format of its requests."""
    prompt_limit: int | None = None
    """Maximum tokens of the system prompt; None sets no separate limit."""
    note: str = ""
    """Note about the model for people, or empty; shown on the page."""
    thinking: tuple[ThinkingLevel, ...] = ()
    """Reasoning levels of a model with `reasoning`; empty means all."""

    @property
    def levels(self) -> tuple[ThinkingLevel, ...]:
        """Returns the reasoning levels that the model accepts; only `off` without `reasoning`."""
        if not self.reasoning:
            return (ThinkingLevel.OFF,)
        return self.thinking or LEVELS

    @property
    def ref(self) -> str:
        """Returns `provider/id`."""
        return f"{self.provider}/{self.id}"


class WireForm(Protocol):
    """A conversation encoded for one API; a message may depend on the ones before it."""

    def add(self, message: Message) -> None:
        """Encodes the next message."""
        ...

    def keep(self, count: int) -> None:
        """Removes all messages after the first `count`."""
        ...


W = TypeVar("W", bound=WireForm)


class History:
    """A conversation for the model, oldest message first.

    It stores its encoding for each API, so that a turn encodes only new messages.
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
        """Returns the approximate number of stored characters, including images as base64."""
        return (self.ends[-1] if self.ends else 0) + self._images

    def append(self, message: Message) -> None:
        """Adds a message at the end."""
        self.messages.append(message)
        self._images += image_chars(message)
        self.ends.append((self.ends[-1] if self.ends else 0) + size(message))

    def put(self, index: int, message: Message) -> None:
        """Replaces the message at `index`; it and all later messages are encoded again."""
        behind = self.messages[index + 1 :]
        self.cut(index)
        for item in (message, *behind):
            self.append(item)

    def cut(self, count: int) -> None:
        """Removes all messages after the first `count`."""
        self._images -= sum(map(image_chars, self.messages[count:]))
        del self.messages[count:], self.ends[count:]
        for name, (accepted, form) in self._forms.items():
            form.keep(count)
            self._forms[name] = min(accepted, count), form

    def form(self, name: str, begin: Callable[[], W]) -> W:
        """Returns the wire form of `name` with each message encoded once; `begin` makes a form."""
        count, form = self._forms.get(name) or (0, begin())
        for message in self.messages[count:]:
            form.add(message)
        self._forms[name] = len(self.messages), form
        return cast("W", form)  # every name has one type of form


class ModelRequest(Struct, frozen=True):
    """One call: model, system prompt, conversation, offered tools and reasoning level."""

    model: ModelInfo
    system: str
    history: History
    tools: tuple[ToolSpec, ...] = ()
    first: int = 0
    """Index of the first message to send: earlier messages do not fit the context window."""
    thinking: ThinkingLevel = ThinkingLevel.OFF
    session_id: str = ""
    """Id that providers use as the key of their prompt cache, or empty."""


class ModelReply(Struct, frozen=True):
    """A complete response. `stop_reason` is `stop`, `length` or `toolUse`."""

    content: tuple[Block, ...]
    stop_reason: str
    usage: Usage

    @property
    def text(self) -> str:
        """Returns the text blocks, joined without a separator."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Returns the tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


def _ignore_text(_: str) -> None:
    """Ignores a text."""


def _ignore_usage(_: Usage) -> None:
    """Ignores a usage."""


class ReplyListener(Struct, frozen=True):
    """Callbacks for a response while it arrives; each call passes the text of one network read."""

    on_text: Callable[[str], None] = _ignore_text
    on_thinking: Callable[[str], None] = _ignore_text
    on_note: Callable[[str], None] = _ignore_text
    """Receives a sentence for the person about how the model was called."""
    on_spent: Callable[[Usage], None] = _ignore_usage
    """Receives billed tokens that no reply contains: those of an attempt that failed or was
    cancelled after the provider had counted them."""


class ModelProvider(Protocol):
    """One model API. It passes text to a listener while the response arrives.

    An async generator that is open when its scope is cancelled is finalised in the wrong task.
    """

    @property
    def api(self) -> str:
        """Returns the wire format, such as `openai-completions`."""
        ...

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; passes the text of each network read to `listener`, in order.

        A run is aborted by cancelling this call: the connection is closed, and the caller keeps the
        text that `listener` received.

        Raises:
            ModelError: one of its subclasses, chosen by the HTTP status, then by the error text. A
                stream without its finish marker raises `ModelStreamCutError`.
        """
        ...


class ModelState(StrEnum):
    """Availability of the model."""

    READY = "ready"
    STARTING = "starting"
    UNAVAILABLE = "unavailable"


class RestingProfile(Struct, frozen=True):
    """A credential that is not used for a model until its cool-down ends, after failures."""

    profile: str
    """`agent/provider:name`, or `environment/provider` for a key without a profile."""
    model: str
    reason: str
    """`rate_limit`, `overloaded`, `auth`, `billing` or `sign_in`."""
    until: int
    """End of the cool-down, in milliseconds since 1970; the end of the year 9999 means until a
    person signs in again."""


class ModelOffer(Struct, frozen=True):
    """A local model server that was found; it gets no conversation until the owner confirms it."""

    id: str
    name: str
    address: str
    """Host and port."""
    owner: str = ""
    """The user of this machine who runs it; empty if the system does not report it."""
    before: str = ""
    """The user for whom it was confirmed, if that is another user."""

    @property
    def text(self) -> str:
        """Returns the description of the offer for people."""
        if self.before:
            return (
                f"{self.name} on {self.address} was confirmed as run by user {self.before};"
                f" now user {self.owner or '(unknown)'} listens there, so it is not used."
            )
        runner = (
            f"run by user {self.owner}" if self.owner else "this system does not report its user"
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
    """State of the model for the page and `status`: the model, its availability and the remedy."""

    state: ModelState
    model: ModelInfo | None
    message: str = ""
    remedy: str = ""
    resting: tuple[RestingProfile, ...] = ()
    """Models and credentials that cool down now, ordered by the end of the cool-down."""
    offers: tuple[ModelOffer, ...] = ()
    """Local servers that the owner has to confirm."""
    failure: ModelFailure | None = None
    """Failure of the model's last call; None when it answered, or was not called yet."""
    latency_ms: int | None = None
    """Latency of the trial call made just now, in milliseconds."""


class Offering(Struct, frozen=True):
    """The models that the providers list."""

    models: tuple[ModelInfo, ...]
    problems: tuple[str, ...] = ()
    """Providers that returned no list, in sentences; their known models are listed instead."""


class Models(Protocol):
    """All usable models, and the choice among them."""

    async def choose(self, ref: str | None) -> tuple[ModelProvider, ModelInfo]:
        """Returns the model that `ref` (`provider/model`) names; for None the first usable model.

        Raises:
            ModelUnavailableError: no model is usable; the message has the reason and the remedy.
        """
        ...

    def tries(self, target: CallTarget) -> Candidates:
        """Returns the candidates of a call, in the order in which they are called."""
        ...

    async def listing(self) -> list[ModelInfo]:
        """Returns the models that can be used now; the first is in use."""
        ...

    async def offered(self, setup: "ModelSetup | None" = None) -> Offering:
        """Requests the list of models from each usable provider, or from the one in `setup`."""
        ...

    async def status(self) -> ModelStatus:
        """Returns the model that would answer now; starts none."""
        ...

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        """Stores that the owner trusts a local server as it runs now, or does not trust it.

        Raises:
            ModelUnavailableError: there is no local server with that name.
            ModelConnectionError: the server does not listen.
            StateError: the decision cannot be stored.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """Settings that a person enters for a better model; empty fields keep the configured value."""

    provider: str = ""
    """A known provider (`openai`, `openrouter`, ...), or any other name together with
    `base_url`."""
    model: str = ""
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    untried: bool = False
    """Saves the settings without a trial call."""


class ModelPick(Struct, frozen=True):
    """Choice among the usable models."""

    ref: str | None = None
    """`provider/model` or an alias; None without `file` restores the default order."""
    file: str | None = None
    """A GGUF file on the gateway's machine, for the embedded model."""
    pin: bool = False
    """Uses the chosen file regardless of other models that are found."""


class Setup(Protocol):
    """Changes the model that answers, in `skerry.json` and in the running gateway."""

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        """Makes a trial call, then writes the settings into `skerry.json`; the next run uses them.

        `setup.untried` skips the trial call.

        Raises:
            ConfigError: the settings are invalid or cannot be written; nothing changed.
            ModelError: the trial call failed; nothing changed.
        """
        ...

    async def use_model(self, pick: ModelPick) -> ModelStatus:
        """Writes the choice into `skerry.json` and uses it from the next run on.

        Raises:
            ConfigError: the choice cannot be written; nothing changed.
            ModelUnavailableError: the named model cannot be used; nothing changed.
        """
        ...
