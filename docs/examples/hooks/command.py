"""Logs each command."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import CommandGiven


def register(api: PluginApi) -> None:
    """Registers the handler."""

    def log_command(event: CommandGiven) -> None:
        api.logger.info("/%s in %s", event.name, event.session_key)

    api.hooks.command(log_command)
