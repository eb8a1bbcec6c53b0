"""Registers the methods of nodes and of their operators, and the tool `nodes`."""

from skerry.policy.access import NODES, READERS, WRITERS
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
    api.tools("tool:make")
