"""Registers the methods of nodes and about them."""

from skerry.policy.access import NODES, READERS, WRITERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
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
