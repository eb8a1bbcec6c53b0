"""Keep tools away from files with secrets, and limit how much is read."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeToolCall, BeforeToolCallChange

MOST_LINES = 200


async def check(event: BeforeToolCall) -> BeforeToolCallChange | None:
    """Block `.env`; let `read` give at most some lines."""
    if str(event.params.get("path", "")).endswith(".env"):
        return BeforeToolCallChange(block=True, block_reason="Files with secrets are not read.")
    if event.tool_name == "read":
        return BeforeToolCallChange(params={"lines": MOST_LINES})
    return None


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.before_tool_call(check)
