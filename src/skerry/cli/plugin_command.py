"""`skerry <id>`: the command of a plugin, which is loaded in this process."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from skerry.cli.meant import Parser
from skerry.cli.render import notice, one_line, plain, show, show_json
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.model.errors import ConfigError, PluginError
from skerry.plugins.discovery import Candidate, candidates
from skerry.plugins.registering import register
from skerry.sdk.cli import CliCall, CliCommand
from skerry.sdk.host import PluginHost

_SCOPES = ("operator.read", "operator.write", "operator.admin")


def run(words: Sequence[str]) -> int | None:
    """Runs `skerry <id> ...`; returns the exit code, or None when no plugin has that id.

    Raises:
        PluginError: the plugin cannot be loaded, or has no command.
    """
    command = anyio.run(_command, words[0])
    if command is None:
        return None
    parser = Parser(prog=f"skerry {words[0]}", description=command.text)
    command.add(parser)
    call = CliCall(
        parser.parse_args(words[1:]),
        _ask,
        lambda text: show(one_line(text)),
        lambda text: show(plain(text)),
        show_json,
        notice,
    )
    return anyio.run(command.run, call)


async def _command(plugin: str) -> CliCommand | None:
    try:
        config = load_good(os.environ).config
    except ConfigError:
        return None  # the unknown command is reported first
    source = _source(config, plugin)
    if source is None:
        return None
    reason = source.refusal(config)
    if reason is not None:
        raise PluginError(f"The plugin {plugin} is not loaded: {reason}", "skerry plugins list")
    rules = config.tools.web.fetch.ssrf_policy.rules
    registered = await register(
        config, source, source.package(config), PluginHost(network=lambda: rules)
    )
    if registered.cli is None:
        raise PluginError(f"The plugin {plugin} has no command.", "skerry plugins list")
    return registered.cli


def _source(config: Config, name: str) -> Candidate | None:
    """Returns the plugin with this id, or whose manifest names the command."""
    every = candidates(config, installed=False)
    by_id = next((candidate for candidate in every if candidate.id == name), None)
    if by_id is not None:
        return by_id
    return next((candidate for candidate in every if name in candidate.commands), None)


async def _ask(method: str, params: Mapping[str, Any]) -> Any:
    async with GatewayClient(find(os.environ), scopes=_SCOPES) as client:
        return await client.request(method, dict(params))
