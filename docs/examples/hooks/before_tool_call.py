"""Blocks tools on files with secrets, and limits the lines that `read` returns."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeToolCall, BeforeToolCallChange

MAX_LINES = 200


async def check(event: BeforeToolCall) -> BeforeToolCallChange | None:
    """Blocks `.env` files; limits the lines of `read`."""
    if str(event.params.get("path", "")).endswith(".env"):
        return BeforeToolCallChange(block=True, block_reason="Files with secrets are not read.")
    if event.tool_name == "read":
        return BeforeToolCallChange(params={"lines": MAX_LINES})
    return None


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.before_tool_call(check)
