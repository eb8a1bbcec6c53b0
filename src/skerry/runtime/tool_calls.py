"""Runs one tool call, and the search of its run in earlier messages."""

import logging
from collections.abc import Mapping

from msgspec import Struct
from pydantic import ValidationError

from skerry.lanes.running import ActiveRun
from skerry.model.errors import ToolError
from skerry.model.inbound import well_formed
from skerry.model.message import TextBlock, ToolCall, ToolResultMessage
from skerry.model.origin import FOUND, Origin
from skerry.model.recall import SearchResults
from skerry.model.tool import ToolResult
from skerry.ports.tool import Tool, ToolContext
from skerry.store import Store

logger = logging.getLogger(__name__)


async def execute(
    call: ToolCall, tools: Mapping[str, Tool], context: ToolContext, at: int
) -> ToolResultMessage:
    """Returns the paired result of `call`, an error included."""
    result = await _run(call, tools, context)
    origin = result.origin if result.origin in FOUND else Origin.TOOL
    text = (TextBlock(well_formed(result.text)),)
    return ToolResultMessage(call.id, call.name, text, result.is_error, at, origin)


async def _run(call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> ToolResult:
    tool = tools.get(call.name)
    if tool is None:
        return ToolResult(f"Tool {call.name} not found", is_error=True)
    try:
        return await tool.run(call.arguments, context)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        return ToolResult(f"Invalid arguments for {call.name}: {problems}", is_error=True)
    except ToolError as error:
        return ToolResult(str(error), is_error=True)
    except Exception:
        # A broken tool must not end the run; the model is told, the details are for the log.
        logger.exception("tool %s failed", call.name)
        return ToolResult(f"Tool {call.name} failed unexpectedly.", is_error=True)


class SessionRecall(Struct, frozen=True):
    """Searches for one run. Implements `ports.tool.Recall`."""

    store: Store
    active: ActiveRun

    async def search(self, query: str, *, limit: int, others: bool) -> SearchResults:
        """Returns the entries with words of the query, without those of this run.

        The owner's other conversations are opened to the owner alone.
        """
        # Imported here: it brings the parts of the memory's search with it.
        from skerry.store.search import Question, search  # noqa: PLC0415 - at first use

        active = self.active
        question = Question(
            active.request.key,
            query,
            limit=limit,
            others=others and active.request.origin is Origin.OWNER,
            until=(active.session_id, active.entry) if active.entry else None,
        )
        return await search(self.store, question)
