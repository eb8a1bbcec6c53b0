"""Registers the routes below `/v1/` and `/tools/`, a service, and a check of the doctor."""

from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.http_prefix("/v1", "routes:make")
    api.http_prefix("/tools", "tool_routes:make")
    api.service("one_off_sessions:run")
    api.check("checks:exposure")
