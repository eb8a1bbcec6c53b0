"""Registers the tools for conversations, agents and the gateway."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.tools("tools:make")
    api.service("service:run")
