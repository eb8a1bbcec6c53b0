"""Registers the memory of a MemWal server: hooks, service, tools, methods and commands."""

from skerry.sdk.api import PluginApi
from skerry_memwal.capture import Capture
from skerry_memwal.options import PLUGIN, parse
from skerry_memwal.outbox import STEPS, Outbox
from skerry_memwal.recall import Recall, Shown
from skerry_memwal.relayer import Relayer


def register(api: PluginApi) -> None:
    """Registers what the plugin consists of.

    Raises:
        PluginError: the options are wrong.
    """
    options = parse(api.config)
    relayer, shown = Relayer(api, options), Shown()
    outbox = Outbox(api.database(STEPS))
    api.logger.info(
        "memory-memwal: registered (server: %s, key: %s, namespace: %s)",
        options.server_url,
        options.keys.preview,
        options.default_namespace,
    )
    api.hooks.before_prompt_build(Recall(relayer, shown).handle)
    capture = Capture(api, relayer, outbox, shown)
    api.hooks.agent_end(capture.woken)
    api.register_service(PLUGIN, capture.run)
