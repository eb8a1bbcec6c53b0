"""Converts tool results to messages, and publishes the output of an active call."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from skerry.model.event import ToolUpdated
from skerry.model.inbound import well_formed
from skerry.model.message import Content, TextBlock, ToolCall, ToolResultMessage
from skerry.model.origin import TOOL_ORIGINS, Origin
from skerry.model.tool import MAX_DETAILS, ToolResult

logger = logging.getLogger(__name__)


def result_message(call: ToolCall, result: ToolResult, at: int) -> ToolResultMessage:
    """Returns the result message of `call`."""
    origin = result.origin if result.origin in TOOL_ORIGINS else Origin.TOOL
    content = (TextBlock(well_formed(result.text)), *map(_storable, result.blocks))
    details = _details(call, result.details)
    return ToolResultMessage(call.id, call.name, content, result.is_error, at, origin, details)


def _storable(block: Content) -> Content:
    return TextBlock(well_formed(block.text)) if isinstance(block, TextBlock) else block


def _details(call: ToolCall, details: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the details for the transcript and clients; None if they cannot be stored."""
    if details is None:
        return None
    try:
        encoded = msgspec.json.encode(details)
        decoded: dict[str, Any] = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError):
        logger.exception("tool %s: details left out because they are not JSON", call.name)
        return None
    if len(encoded) > MAX_DETAILS:
        logger.warning("tool %s: %d bytes of details left out: too long", call.name, len(encoded))
        return None
    return decoded


class CallProgress:
    """Publishes the progress of one call. Implements `ToolContext.progress`."""

    def __init__(self, call: ToolCall, publish: Callable[[ToolUpdated], None]) -> None:
        self._call = call
        self._publish = publish
        self._has_ended = False

    def __call__(self, report: ToolResult) -> None:
        """Publishes the output so far, unless the call has ended."""
        if not self._has_ended:
            call, text = self._call, well_formed(report.text)
            self._publish(ToolUpdated(call.id, call.name, text, _details(call, report.details)))

    def end(self) -> None:
        """Stops publishing: the call has its result."""
        self._has_ended = True
