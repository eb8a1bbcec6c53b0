"""Methods for plugins: list them, run their checks, list their panels of the page."""

from typing import Final

import msgspec

from skerry.gateway.frames import Json
from skerry.gateway.late import plugin_http
from skerry.gateway.method import Call, Method, NoParams


def plugins_list(call: Call, _: NoParams) -> Json:
    """Returns the configured plugins, their registrations, and their states."""
    plugins = call.context.plugins
    if plugins is None:
        return {"plugins": []}
    failing = [msgspec.to_builtins(handler) for handler in plugins.handlers() if handler.failures]
    return {
        "plugins": [
            msgspec.to_builtins(report)
            | {"failures": [failed for failed in failing if failed["plugin"] == report.id]}
            | {"changed": plugins.changed(report)}
            for report in plugins.reports
        ]
    }


async def plugins_check(call: Call, _: NoParams) -> Json:
    """Runs the checks of plugins; returns their results."""
    plugins = call.context.plugins
    return {"checks": msgspec.to_builtins(await plugins.checks()) if plugins else []}


def plugins_panels(call: Call, _: NoParams) -> Json:
    """Returns the panels that plugins added to the page, each with the address of its module."""
    plugins = call.context.plugins
    if plugins is None or not plugins.panels:
        return {"panels": []}
    return {
        "panels": [
            {
                "plugin": panel.plugin,
                "title": panel.title,
                "url": plugin_http.panel_url(call.context, panel) + "panel.js",
            }
            for panel in plugins.panels
        ]
    }


METHODS: Final = (
    Method("plugins.check", NoParams, plugins_check),
    Method("plugins.panels", NoParams, plugins_panels),
    Method("plugins.list", NoParams, plugins_list),
)
