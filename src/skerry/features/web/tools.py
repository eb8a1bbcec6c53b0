"""Makes the tools of the web, at the first request to a model."""

from collections.abc import Sequence

from skerry.features.web.web_fetch import WebFetch
from skerry.features.web.web_search import WebSearch
from skerry.net.live_client import LiveClient
from skerry.ports.tool import Tool
from skerry.sdk.tool_host import ToolHost


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns `web_search` and `web_fetch`."""
    return (WebSearch(host, LiveClient()), WebFetch(host, LiveClient()))
