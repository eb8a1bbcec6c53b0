"""Runs one tool call; whatever goes wrong is a result that the model can read."""

import logging
from collections.abc import Mapping

from pydantic import ValidationError

from skerry.model.errors import ToolError
from skerry.model.inbound import well_formed
from skerry.model.message import TextBlock, ToolCall, ToolResultMessage
from skerry.model.origin import FOUND, Origin
from skerry.model.tool import ToolResult
from skerry.ports.tool import Tool, ToolContext

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
            f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
            for one in error.errors(include_url=False, include_input=False)
        )
        return ToolResult(f"Invalid arguments for {call.name}: {problems}", is_error=True)
    except ToolError as error:
        return ToolResult(str(error), is_error=True)
    except Exception:
        # A broken tool must not end the run; the model is told, the details are for the log.
        logger.exception("tool %s failed", call.name)
        return ToolResult(f"Tool {call.name} failed unexpectedly.", is_error=True)
