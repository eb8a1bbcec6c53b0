"""Registers sub-agents: the tool that starts them, their service, methods and `/subagents`."""

from skerry.policy.access import READERS, WRITERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    needs = {
        "subagents.info": READERS,
        "subagents.kill": WRITERS,
        "subagents.list": READERS,
        "subagents.log": READERS,
        "subagents.send": WRITERS,
    }
    api.methods(needs, "methods:METHODS")
    api.commands("commands:commands")
    api.tools("tool:make")
    api.service("service:run")
