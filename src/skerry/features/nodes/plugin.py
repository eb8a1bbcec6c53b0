"""Registers the methods of nodes and of their operators, the tools for them, and pages."""

from skerry.policy.access import ADMINS, NODES, READERS, WRITERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "node.describe": READERS,
        "node.event": NODES,
        "node.invoke": WRITERS,
        "node.invoke.result": NODES,
        "node.list": READERS,
        "node.pluginTools.update": NODES,
        "node.runnerInventory.update": NODES,
        "node.skills.update": NODES,
        "skills.bins": NODES,
    }
    api.methods(needs, "methods:METHODS")
    api.methods({"node.canvas.url": ADMINS}, "canvas_methods:METHODS", named=False)
    api.tools("tool:make")
    api.http_prefix("/__openclaw__/canvas", "canvas_http:make")
    api.http_prefix("/__openclaw__/cap", "canvas_http:make")
    api.node_hello("capability:hello")
