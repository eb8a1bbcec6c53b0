"""`skerry plugins list`: lists the plugins with their parts and failures."""

import os
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import one_line, show, show_json, styled
from skerry.client.client import GatewayClient
from skerry.client.discover import find

_STYLES: Final = {"loaded": "green", "disabled": "dim", "failed": "red"}
_BROUGHT: Final = (
    *("hooks", "tools", "commands", "methods", "services"),
    *("events", "routes", "panels", "skills", "channels", "models", "providers"),
)


def run(arguments: Namespace) -> int:
    """Runs `skerry plugins list`; returns the exit code."""
    return anyio.run(_list, arguments)


async def _list(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    async with GatewayClient(address, scopes=("operator.read",)) as client:
        listed = await client.request("plugins.list")
    plugins: list[dict[str, Any]] = listed["plugins"]
    if arguments.json:
        show_json(plugins)
        return 0
    if not plugins:
        show("No plugins. Install a folder or a wheel with `skerry plugins install PATH`.")
    for plugin in plugins:
        _show(plugin)
    return 0


def _show(plugin: dict[str, Any]) -> None:
    status = str(plugin["status"])
    mark = styled(f"{status:8}", _STYLES.get(status, "bold"))
    show(f"{mark} {one_line(plugin['id'])}  {one_line(plugin['path'])}")
    for kind in _BROUGHT:
        if plugin.get(kind):
            show(f"{'':8} {kind}: {one_line(', '.join(plugin[kind]))}")
    for label, text in (("", plugin["reason"]), ("Try: ", plugin["remedy"])):
        if text:
            show(f"{'':8} {label}{one_line(text)}")
    if plugin.get("changed"):
        show(f"{'':8} its files have changed since it was loaded; restart the gateway")
    for failed in plugin["failures"]:
        rests = "; it is paused now" if failed["resting"] else ""
        text = f"{failed['hook']} failed {failed['failures']} times: {failed['last_error']}{rests}"
        show(f"{'':8} {one_line(text)}")
