"""Registers sub-agents: the tool that starts them and the service that follows them."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers what the feature consists of."""
    api.tools("tool:make")
    api.service("service:run")
