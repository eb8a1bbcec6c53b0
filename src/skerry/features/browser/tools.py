"""Makes the tool of the browser, at the first request to a model."""

from collections.abc import Sequence

from skerry.features.browser.tool import BrowserTool
from skerry.ports.tool import Tool
from skerry.sdk.tool_host import ToolHost


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns `browser`."""
    return (BrowserTool(host),)
