"""Parts of the gateway that tools of features get."""

from collections.abc import Mapping

from skerry.gateway.context import GatewayContext
from skerry.sdk.tool_host import ToolHost


def tool_host(context: GatewayContext, environ: Mapping[str, str]) -> ToolHost:
    """Returns the host of tools; they are made of it at the first request to a model."""
    return ToolHost(
        config=context.config,
        store=context.store,
        environ=environ,
        clock=context.clock,
        notify=context.system_events.add,
        redact=context.approvals.redact if context.approvals else str,
    )
