"""The tool `session_search`: what was said earlier, also what is no longer in the context."""

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.recall import Excerpt, SearchResults, TranscriptHit
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext


class SessionSearchParams(BaseModel):
    """Parameters of `session_search`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(description="Words that were used.", min_length=1, max_length=1000)
    limit: int = Field(default=6, ge=1, le=20)
    others: bool = Field(default=False, description="Also the owner's other conversations.")


class SessionSearch:
    """Searches the transcript of the conversation; nothing that was said is lost."""

    reads_only = True

    verb = Verb.USE
    spec = ToolSpec(
        "session_search",
        "Find what was said earlier in this conversation, also what was summarised since.",
        SessionSearchParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the exchanges that fit the words best, with the entries around them."""
        params = SessionSearchParams.model_validate(arguments)
        if context.recall is None:
            raise ToolError("There is no conversation to search.")
        results = await context.recall.search(
            params.query, limit=params.limit, other_conversations=params.others
        )
        return ToolResult(as_text(results), origin=Origin.MEMORY)


def as_text(results: SearchResults) -> str:
    """Returns the finding as a model, or a person, reads it."""
    lines = [_hit(number, hit) for number, hit in enumerate(results.hits, 1)]
    if not lines:
        lines = ["Nothing was found. Try other words that may have been used."]
    if not results.complete:
        lines.append("Not everything could be searched yet; ask again later.")
    return "\n\n".join(lines)


def _hit(number: int, hit: TranscriptHit) -> str:
    where = f"{hit.key}, earlier session" if hit.archived else hit.key
    excerpt = hit.excerpt
    lines = [f"{number}. {_day(excerpt.at)} entry {excerpt.entry} ({where})"]
    lines += [
        _line(excerpt)
        for excerpt in (hit.before, excerpt, hit.after)
        if excerpt is not None and excerpt.text
    ]
    return "\n".join(lines)


def _line(excerpt: Excerpt) -> str:
    return f"   {excerpt.role}: {excerpt.text}"


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
