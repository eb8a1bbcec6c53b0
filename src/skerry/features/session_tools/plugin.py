"""Registers the tools about conversations, agents and the gateway itself."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.tools("tools:make")
    api.service("service:run")
