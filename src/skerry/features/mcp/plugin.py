"""Registers the tools of MCP servers, the methods about them, and a check of the doctor."""

from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi


def register(api: FeatureApi) -> None:
    """Registers the parts of the feature."""
    api.tool_source("mcp_tools:make")
    needs = {"mcp.list": READERS, "mcp.tools": READERS, "mcp.test": ADMINS, "mcp.trust": ADMINS}
    api.methods(needs, "methods:METHODS")
    api.check("checks:servers")
    api.status_check("checks:problems")
