"""Checks of the report of a running gateway: plugins, queue, configuration."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.root import Config
from skerry.model.errors import ClientError
from skerry.plugins.discovery import BUNDLED
from skerry.plugins.inspecting import inspect
from skerry.ports.checks import Check, Level
from skerry.ports.plugins import PluginStatus
from skerry.sdk.features import registered

_FAILED = "Correct the file, or set plugins.entries.{id}.enabled to false."
_HANDLER = "Correct the plugin, or set plugins.entries.{id}.enabled to false."


class GatewayAnswer(NamedTuple):
    """Answer of a running gateway: its status, its plugins, and the results of their checks."""

    status: dict[str, Any]
    plugins: list[dict[str, Any]]
    checks: list[Check]


async def gateway_answer(environ: Mapping[str, str]) -> GatewayAnswer | None:
    """Returns the answer of the running gateway; None when it cannot be reached."""
    try:
        async with GatewayClient(find(environ), scopes=("operator.read",)) as client:
            status = await client.request("status")
            listed = (await client.request("plugins.list"))["plugins"]
            rows = (await client.request("plugins.check"))["checks"] if listed else []
    except (ClientError, TimeoutError):
        return None
    return GatewayAnswer(
        status, listed, [Check(**{**row, "level": Level(row["level"])}) for row in rows]
    )


def running(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields the states that need a person."""
    for load in registered().status_checks:
        yield from load()(status)
    queue = status.get("queue", {})
    for work in queue.get("stuck", ()):
        message = f"{work['what']} was cancelled and is still running."
        yield Check("stuck", Level.WARNING, message, "Restart the gateway when convenient.")
    for work in queue.get("lanes", ()):
        if work["waiting"]:
            message = f"{work['waiting']} conversations wait for one of {work['limit']} run slots."
            remedy = (
                "If that lasts, raise agents.defaults.maxConcurrent. See skerry gateway status."
            )
            yield Check(f"lane {work['name']}", Level.WARNING, message, remedy)
    configuration = status.get("configuration", {})
    if configuration.get("state") == "last-good":
        remedy = str(configuration.get("remedy", ""))
        message = f"the running gateway uses the last good one: {configuration.get('message')}"
        yield Check("configuration", Level.WARNING, message, remedy)
    if paths := ", ".join(configuration.get("restartPaths", ())):
        message = f"the running gateway does not use yet: {paths}."
        automatic = configuration.get("restart") == "automatic"
        remedy = "It restarts when no run is active." if automatic else "Restart the gateway."
        yield Check("configuration", Level.WARNING, message, remedy)


def plugins(listed: list[dict[str, Any]]) -> Iterator[Check]:
    """Yields the state of each plugin of the running gateway, and each failed function."""
    for plugin in listed:
        name, status = f"plugin {plugin['id']}", plugin["status"]
        if status == PluginStatus.FAILED:
            remedy = plugin["remedy"] or _FAILED.format(id=plugin["id"])
            yield Check(name, Level.FAILURE, plugin["reason"], remedy)
        elif plugin.get("changed"):
            message = "its files have changed since it was loaded."
            yield Check(name, Level.WARNING, message, "Restart the gateway.")
        elif not plugin["failures"]:
            yield Check(name, Level.OK, plugin["reason"] or status)
        for failure in plugin["failures"]:
            rests = "; it is paused for a minute" if failure["resting"] else ""
            times = f"{failure['hook']} failed {failure['failures']} times{rests}"
            message = f"{times}: {failure['last_error']}"
            yield Check(name, Level.WARNING, message, _HANDLER.format(id=plugin["id"]))


def plugin_files(config: Config) -> Iterator[Check]:
    """Yields the plugin files that a start would refuse, without running them."""
    for report in inspect(config):
        name = f"plugin {report.id}"
        match report.status:
            case PluginStatus.DISABLED if report.id in BUNDLED:
                continue  # a bundled plugin is installed everywhere, and off by default
            case PluginStatus.FAILED:
                remedy = report.remedy or _FAILED.format(id=report.id)
                yield Check(name, Level.FAILURE, report.reason, remedy)
            case PluginStatus.DISABLED:
                yield Check(name, Level.OK, report.reason)
            case PluginStatus.LOADED:
                yield Check(name, Level.OK, f"{report.path} can be loaded.")
