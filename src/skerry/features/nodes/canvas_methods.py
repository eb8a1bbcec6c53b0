"""The method with which the tool `canvas` gets the address of a page for a node."""

from typing import Final

from skerry.features.nodes.capability import CANVAS, host_url
from skerry.features.nodes.config import CanvasHostConfig
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError


class CanvasUrlParams(Params):
    """Node and agent."""

    node_id: Name
    agent_id: Name | None = None


def canvas_url(call: Call, params: CanvasUrlParams) -> Json:
    """Returns the address of the agent's pages for a connected node."""
    config = call.context.config()
    if not config.section(CanvasHostConfig).enabled:
        raise RefusedError("canvasHost.enabled is false", "Set canvasHost.enabled to true.")
    node = call.context.nodes.find(params.node_id)
    if node is None:
        raise RefusedError(
            "node not connected", code=ErrorCode.UNAVAILABLE, details={"code": "NOT_CONNECTED"}
        )
    url = host_url(config.gateway, node, call.agent(params.agent_id))
    return {"url": f"{url}{CANVAS}/"}


METHODS: Final = (Method("node.canvas.url", CanvasUrlParams, canvas_url),)
