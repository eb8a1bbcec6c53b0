"""Makes the tools for conversations, agents and the gateway."""

from collections.abc import Sequence

from skerry.features.session_tools.gateway_tool import GatewayTool
from skerry.features.session_tools.message_tool import MessageTool
from skerry.features.session_tools.session_read import (
    AgentsList,
    SessionsHistory,
    SessionsList,
    SessionStatus,
)
from skerry.features.session_tools.session_send import SessionsSend
from skerry.ports.tool import Tool
from skerry.sdk.tool_host import ToolHost


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns the tools, in their order in the model request."""
    return (
        SessionStatus(host),
        SessionsList(host),
        SessionsHistory(host),
        SessionsSend(host),
        AgentsList(host),
        MessageTool(host),
        GatewayTool(host),
    )
