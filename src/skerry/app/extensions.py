"""Extensions of the gateway: tools, commands, and the additions of plugins to both."""

from collections.abc import Callable, Iterable, Iterator, Mapping, ValuesView
from functools import cached_property
from typing import TYPE_CHECKING

from skerry.app.command_dependencies import Desk
from skerry.app.memory import MemoryParts
from skerry.app.records import stored_records
from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.policy.access import TOOLS
from skerry.ports.model import Models
from skerry.ports.tool import Tool
from skerry.store import Store

if TYPE_CHECKING:
    from skerry.plugins.load import Plugins


class OwnTools(Mapping[str, Tool]):
    """Our own tools by name, made when somebody first looks: the first message is soon enough.

    Raises:
        RuntimeError: one has no row in the policy.
    """

    def __init__(self, memory: Callable[[], Iterable[Tool]]) -> None:
        self._memory = memory

    def add(self, tools: Mapping[str, Tool]) -> None:
        """Takes the tools of plugins."""
        self._made.update(tools)

    @cached_property
    def _made(self) -> dict[str, Tool]:
        from skerry.tools.edit import Edit  # noqa: PLC0415 - see above
        from skerry.tools.read import Read  # noqa: PLC0415
        from skerry.tools.session_search import SessionSearch  # noqa: PLC0415
        from skerry.tools.write import Write  # noqa: PLC0415

        ours: tuple[Tool, ...] = (Read(), Write(), Edit(), SessionSearch(), *self._memory())
        made = {tool.spec.name: tool for tool in ours}
        if unruled := sorted(made.keys() - TOOLS.keys()):
            raise RuntimeError(f"policy/access.py has no row for: {', '.join(unruled)}")
        return made

    def __getitem__(self, name: str) -> Tool:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def values(self) -> ValuesView[Tool]:
        """Returns the tools, as each turn asks: the mixin's looks up every key."""
        return self._made.values()


async def load_extensions(
    config: Config, desk: Desk, models: Models, memory: MemoryParts, tools: OwnTools
) -> "Plugins | None":
    """Adds our commands, and what the plugins register, to the gateway of `desk`.

    A plugin that cannot be loaded is reported and leaves the others alone.
    """
    runtime = desk.dispatcher.runtime
    commands = runtime.commands

    def fill() -> tuple[Command, ...]:
        # Imported here: they are many, and the first message is soon enough.
        from skerry.app.commands import every_command  # noqa: PLC0415

        return (*every_command(models, runtime.store, desk, commands), *memory.commands())

    commands.provide(fill)
    if not config.plugins.load.paths:
        return None
    # Imported here: a start without plugins does not pay for them.
    from skerry.plugins.load import load_plugins  # noqa: PLC0415

    plugins = await load_plugins(config, runtime.hooks, commands, tools)
    tools.add(plugins.tools)
    return plugins


async def load_hook_folders(
    config: Config, hooks: Hooks, environ: Mapping[str, str], clock: Clock, store: Store
) -> None:
    """Lets the hooks that the configuration switches on take part; one that fails is logged."""
    if config.hooks.internal.enabled and config.hooks.internal.entries:
        from skerry.plugins.folders import load_hooks  # noqa: PLC0415 - a start without has no need

        await load_hooks(config, hooks, environ, clock, await stored_records(store, clock))
