"""Tools `memory_search` and `memory_store` (seed 001, "Tools").

They are offered only if `tools.allow` of the agent names them, in conversations with the owner
only. Calls use the namespace of the conversation; a call that names another is refused.
"""

from typing import Annotated, Any, ClassVar, Final, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from skerry.sdk.channels import PeerKind
from skerry.sdk.messages import Origin
from skerry.sdk.tools import Caller, ToolContext, ToolError, ToolResult, ToolSpec, Verb, may
from skerry_memwal.client import MemWalError, Recalled
from skerry_memwal.injection import is_injection
from skerry_memwal.relayer import Relayer
from skerry_memwal.texts import escaped

P = TypeVar("P")
MIN_STORED_CHARS: Final = 3
"""Minimum length of a text to store, in characters."""
MAX_STORED_CHARS: Final = 20_000
"""Maximum length of a text to store, in characters."""
MAX_HITS: Final = 50
SHOWN_FACTS: Final = 3
_ELSEWHERE: Final = "the namespace {requested!r} is not that of this conversation, which is {own!r}"


class SearchParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `memory_search`."""

    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS)] = 5
    namespace: str | None = None


class StoreParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `memory_store`."""

    text: Annotated[str, Meta(max_length=MAX_STORED_CHARS)]
    namespace: str | None = None


_NAMESPACE: Final = {"type": "string", "description": "Memory namespace"}
SEARCH_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Natural language search query"},
        "limit": {"type": "integer", "description": "Max results (default: 5)"},
        "namespace": _NAMESPACE,
    },
    "required": ["query"],
    "additionalProperties": False,
}
STORE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "Information to store"},
        "namespace": _NAMESPACE,
    },
    "required": ["text"],
    "additionalProperties": False,
}


class _Tool:
    """Common base: the server, and the conversations in which the tool is offered."""

    def __init__(self, relayer: Relayer) -> None:
        self._relayer = relayer

    def is_offered(self, caller: Caller) -> bool:
        """Returns whether the owner is the only person in the conversation."""
        return caller.is_private and caller.chat is PeerKind.DIRECT

    def _namespace(self, context: ToolContext, requested: str | None) -> tuple[str, str]:
        """Returns the agent and its namespace.

        Raises:
            MemWalError: the call has no caller, or names another namespace.
        """
        caller = context.caller
        if caller is None or not self.is_offered(caller):
            raise MemWalError("memory is not used in this conversation")
        agent = str(caller.key.agent)
        own_namespace = self._relayer.namespace(agent)
        if requested is not None and requested != own_namespace:
            raise MemWalError(_ELSEWHERE.format(requested=requested[:64], own=own_namespace))
        return agent, own_namespace


class MemorySearch(_Tool):
    """Finds memories by their meaning."""

    reads_only: ClassVar = True
    verb: ClassVar = Verb.RECALL
    spec: ClassVar = ToolSpec(
        "memory_search",
        "Search long-term memory for facts about the user and earlier conversations.",
        SEARCH_SCHEMA,
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the memories with their relevance; a failure is returned as text too."""
        params = _checked(arguments, SearchParams)
        try:
            agent, namespace = self._namespace(context, params.namespace)
            memories = await self._relayer.client(agent).recall(
                params.query, params.limit, namespace
            )
        except MemWalError as error:
            return _failed(f"Memory search failed: {error}", str(error))
        safe_memories = [memory for memory in memories if not is_injection(memory.text)]
        details: dict[str, Any] = {"count": len(safe_memories), "namespace": namespace}
        if not safe_memories:
            return ToolResult("No relevant memories found.", details=details)
        details["memories"] = [
            {"text": memory.text, "blob_id": memory.blob_id, "relevance": _rounded(memory)}
            for memory in safe_memories
        ]
        lines = (
            f"{number}. {escaped(memory.text)} ({round(memory.relevance * 100)}% relevance)"
            for number, memory in enumerate(safe_memories, 1)
        )
        text = "\n".join((f"Found {len(safe_memories)} memories:", "", *lines))
        return ToolResult(text, origin=Origin.MEMORY, details=details)


class MemoryStore(_Tool):
    """Stores facts that the server extracts from a text."""

    verb: ClassVar = Verb.NOTE
    spec: ClassVar = ToolSpec(
        "memory_store",
        "Store facts about the user in long-term memory.",
        STORE_SCHEMA,
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the number of facts and the first of them; a failure is returned as text too."""
        params = _checked(arguments, StoreParams)
        text = params.text.strip()
        if is_injection(params.text):
            message = "Cannot store text containing disallowed patterns."
            return _failed(message, "injection_rejected")
        if len(text) < MIN_STORED_CHARS:
            return _failed("Cannot store empty or very short text.", "text_too_short")
        if refusal := may(context, self.verb):
            return _failed(f"Failed to store memory: {refusal}", refusal)
        try:
            agent, namespace = self._namespace(context, params.namespace)
            facts = await self._relayer.client(agent).analyze(text, namespace)
        except MemWalError as error:
            return _failed(f"Failed to store memory: {error}", str(error))
        first_facts = "; ".join(fact.text for fact in facts[:SHOWN_FACTS])
        count = "1 fact" if len(facts) == 1 else f"{len(facts)} facts"
        text = (
            f"Stored {count}: {first_facts}"
            if facts
            else ("No memorable facts extracted from the input.")
        )
        details = {
            "action": "created",
            "namespace": namespace,
            "factCount": len(facts),
            "facts": [fact.text for fact in facts],
        }
        return ToolResult(text, origin=Origin.MEMORY, details=details)


def _checked(arguments: dict[str, Any], kind: type[P]) -> P:
    """Returns the parameters of a call.

    Raises:
        ToolError: the arguments are invalid.
    """
    try:
        return convert(arguments, kind)
    except ValidationError as error:
        raise ToolError(f"The arguments do not fit: {error}. Correct them.") from error


def _failed(text: str, error: str) -> ToolResult:
    return ToolResult(text, is_error=True, origin=Origin.LOCAL, details={"error": error})


def _rounded(memory: Recalled) -> float:
    return round(memory.relevance, 2)
