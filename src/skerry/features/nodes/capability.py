"""Addresses of the pages of one agent for one connected node.

The address has a capability: a hash over the agent's id, keyed by random bytes of the node's
connection. It opens the files of `canvas/` of this agent's workspace, and ends with the connection.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from skerry.config.gateway import GatewayConfig
from skerry.features.nodes.config import CanvasHostConfig
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json
from skerry.gateway.nodes import ConnectedNode
from skerry.model.ids import AgentId

CAPABILITIES: Final = "/__openclaw__/cap"
CANVAS: Final = "/__openclaw__/canvas"
_MAX_LENGTH: Final = 128
_VERSION_3: Final = 3


def capability(node: ConnectedNode, agent: AgentId) -> str:
    """Returns the text that opens the pages of the agent to the node."""
    digest = hmac.new(node.secret, f"canvas\0{agent}".encode(), sha256).digest()
    return f"{agent}.{urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def agent_of(
    text: str, nodes: Iterable[ConnectedNode], agents: Iterable[AgentId]
) -> AgentId | None:
    """Returns the agent whose pages the capability opens; None for an invalid one."""
    name = text[:_MAX_LENGTH].partition(".")[0]
    agent = next((known for known in agents if known == name), None)
    if agent is None:
        return None
    valid = False
    for node in nodes:  # all of them, so that the time does not depend on the node
        valid |= hmac.compare_digest(capability(node, agent).encode(), text.encode())
    return agent if valid else None


def host_url(gateway: GatewayConfig, node: ConnectedNode, agent: AgentId) -> str:
    """Returns the address under which the node appends the path of a page."""
    allowed = gateway.control_ui.allowed_origins
    host = node.host.lower()
    origin = next((site for site in allowed if urlsplit(site).netloc == host), f"http://{host}")
    return f"{origin}{CAPABILITIES}/{capability(node, agent)}"


def hello(context: GatewayContext, node: ConnectedNode, protocol: int) -> dict[str, Json]:
    """Returns the fields of `hello-ok` with the address of the default agent's pages."""
    config = context.config()
    if not config.section(CanvasHostConfig).enabled:
        return {}
    url = host_url(config.gateway, node, config.agents.default_id)
    return (
        {"canvasHostUrl": url} if protocol == _VERSION_3 else {"pluginSurfaceUrls": {"canvas": url}}
    )
