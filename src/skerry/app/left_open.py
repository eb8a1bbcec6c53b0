"""Runs that the last process did not finish."""

from skerry.app.late import recovery
from skerry.config.root import Config
from skerry.ports.tool import reads_only
from skerry.runtime.run_context import Runtime
from skerry.store import runs


async def left_open(runtime: Runtime, config: Config) -> list[runs.OpenRun]:
    """Closes open runs of the last process that must not be repeated; returns those to resume."""
    store = runtime.store
    if not await store.read(runs.any_open):
        return []  # an ordinary start writes nothing
    policy = config.session.send_policy
    harmless = frozenset(name for name, tool in runtime.tools.items() if reads_only(tool))
    facts = recovery.RunFacts(
        harmless, lambda request: runtime.commands.command_in(request) is not None
    )
    return await recovery.recover(
        store, runtime.clock, runtime.delivery.parts, runtime.hooks, policy, facts
    )
