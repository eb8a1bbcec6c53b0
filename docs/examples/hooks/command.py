"""Notes in the log who gives which command."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import CommandGiven


def register(api: PluginApi) -> None:
    """Take part when somebody gives a command."""

    def note(event: CommandGiven) -> None:
        api.logger.info("/%s in %s", event.name, event.session_key)

    api.hooks.command(note)
