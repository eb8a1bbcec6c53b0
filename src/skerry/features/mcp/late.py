"""Modules that only a configured server needs; `sdk_client` imports the SDK: 44 MB."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.features.mcp import config as config
    from skerry.features.mcp import mcp_server as mcp_server
    from skerry.features.mcp import sdk_client as sdk_client
else:
    __getattr__ = late(__package__)
