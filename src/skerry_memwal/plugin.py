"""Registers the memory of a MemWal server: hooks, service, tools, methods and commands."""

from skerry.sdk.api import PluginApi
from skerry.sdk.checks import Check, Level
from skerry_memwal import cli
from skerry_memwal.backend import Backend
from skerry_memwal.capture import Capture
from skerry_memwal.methods import Methods
from skerry_memwal.options import PLUGIN, parse
from skerry_memwal.outbox import STEPS, Outbox
from skerry_memwal.recall import PromptTexts, Recall
from skerry_memwal.relayer import Relayer
from skerry_memwal.tools import MemorySearch, MemoryStore


def register(api: PluginApi) -> None:
    """Registers the parts of the plugin.

    Raises:
        PluginError: the options are invalid.
    """
    options = parse(api.config)
    relayer, prompt_texts = Relayer(api, options), PromptTexts()
    outbox = Outbox(api.database(STEPS))
    api.logger.info(
        "memory-memwal: registered (server: %s, key: %s, namespace: %s)",
        options.server_url,
        options.keys.preview,
        options.default_namespace,
    )
    api.hooks.before_prompt_build(Recall(relayer, prompt_texts).handle)
    capture = Capture(api, relayer, outbox, prompt_texts)
    api.hooks.agent_end(capture.on_agent_end)
    api.register_init(capture.prepare)
    api.register_service(PLUGIN, capture.run)
    backend = Backend(relayer, outbox)
    api.claim_slot("memory", backend)
    for tool in (MemorySearch(relayer), MemoryStore(relayer)):
        api.register_tool(tool, optional=True)
    Methods(relayer, outbox, backend).register(api)
    api.register_cli_command(
        "search, store and forget memories of a MemWal server", cli.run, add=cli.add
    )

    async def check() -> list[Check]:
        state = await backend.status("main")
        level = Level.OK if state.is_ok else Level.FAILURE
        return [Check(PLUGIN, level, state.text, state.remedy)]

    api.register_doctor_check(check)
