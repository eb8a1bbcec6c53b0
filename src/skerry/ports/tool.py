"""Protocol of a tool."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Struct

from skerry.infra.rooted_fs import Beneath
from skerry.model.caller import Caller
from skerry.model.memory import KnownMessages
from skerry.model.origin import Origin
from skerry.model.recall import SearchResults
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.decide import Actor, Request, decide


class Recall(Protocol):
    """Search in the conversation in which a tool runs."""

    async def search(self, query: str, *, limit: int, others: bool) -> SearchResults:
        """Returns the entries with words of the query, without those of the present run.

        `others`: also in the owner's other conversations, where this one is the owner's.
        """
        ...


class ToolContext(Struct, frozen=True):
    """Resources of a tool call: the workspace, opened by descriptor, and earlier messages."""

    workspace: Beneath
    recall: Recall | None = None
    """None where nobody speaks."""
    caller: Caller | None = None
    """Caller and conversation; None if nobody asks: then nothing of the owner's is opened."""
    taint: frozenset[Origin] = frozenset()
    """Origins of text in the model's context that is not the owner's, such as `web`."""
    heard: KnownMessages | None = None
    """Messages in the model's context; None if there are none."""

    @property
    def actor(self) -> Actor:
        """Returns whoever asks, as the policy sees it."""
        return Actor.of(self.caller, self.taint)


class Tool(Protocol):
    """One capability that a model may call."""

    @property
    def spec(self) -> ToolSpec:
        """Returns the description of the tool for the model."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Checks the arguments and does the work.

        Raises:
            ToolError: with a message that tells the model what to do instead.
        """
        ...


def reads_only(tool: Tool) -> bool:
    """Returns whether the tool declares that a call has no effect: it may be made a second time.

    A tool without a `reads_only` has effects.
    """
    return getattr(tool, "reads_only", False) is True


def verb_of(tool: Tool) -> Verb | None:
    """Returns the effect that a tool declares as `verb`; `use` is none that outlives the call.

    Every tool of ours declares one. Tools of the memory are the owner's alone, whatever the
    configuration grants.
    """
    verb = getattr(tool, "verb", None)
    return verb if isinstance(verb, Verb) else None


def offered(
    tools: Iterable[Tool], caller: Caller, granted: frozenset[str] = frozenset()
) -> list[Tool]:
    """Returns the tools that a run of `caller` is offered, in their order.

    The policy is asked first: without a grant they are the owner's alone. A tool with an
    `is_offered(caller)` decides for itself then. What several tools ask alike is asked once.
    """
    actor = Actor.of(caller)

    offered_tools: list[Tool] = []
    answers: dict[Callable[[Caller], bool], bool] = {}
    for tool in tools:
        use = Request(actor, Verb.USE, tool.spec.name, granted=granted, effect=verb_of(tool))
        if not decide(use).allowed:
            continue
        ask: Callable[[Caller], bool] | None = getattr(tool, "is_offered", None)
        if ask is not None and ask not in answers:
            answers[ask] = bool(ask(caller))
        if ask is None or answers[ask]:
            offered_tools.append(tool)
    return offered_tools
